"""Where Spark is, and the directory that is made so that its Python starts sooner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elea.spark import home


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_a_home_that_was_chosen_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert home.spark_home() == tmp_path


def test_the_home_that_is_made_has_compiled_modules_where_the_zip_was() -> None:
    made = home.spark_home()
    assert made == home.spark_home()
    package = home._package()
    assert (made / "bin" / "spark-submit").samefile(package / "bin" / "spark-submit")
    assert (made / "jars").samefile(package / "jars")
    code = "import pyspark, py4j; print(pyspark.__cached__); print(py4j.__file__)"
    lib = made / "python" / "lib"
    [py4j] = lib.glob("py4j-*.zip")
    places = [str(lib / "pyspark.zip"), str(py4j)]
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {places}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    compiled, other = done.stdout.splitlines()
    assert Path(compiled).exists()
    assert compiled.startswith(str(lib / "pyspark.zip"))
    assert other.startswith(str(py4j))
    assert [one.name for one in made.parent.iterdir()] == [made.name]  # nothing else is left


def test_without_a_place_for_it_the_package_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert home.spark_home() == home._package()
