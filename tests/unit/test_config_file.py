from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest

from elea.config import Config
from elea.config_file import in_environment, is_open_to_all, read_secret, restore_secrets
from elea.errors import ConfigError, LimitError
from elea.ids import WhatAmI
from elea.secret import Secret

SECRET = '{transport: {auth: {usrpwd: {user: "me", password: "canary"}}}}'


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("node.json5", "{mode: 'router'} // why"),
        ("node.yaml", "mode: router"),
        ("node.YML", "mode: router"),
        ("node.toml", "mode = 'router'"),
        ("node", '{"mode": "router"}'),
    ],
)
def test_the_ending_decides(tmp_path: Path, name: str, text: str) -> None:
    file = write(tmp_path / name, text, 0o644)
    for path in (file, str(file)):
        config = Config.from_file(path)
        assert config.mode is WhatAmI.ROUTER
        assert config.origin == str(file)


@pytest.mark.skipif(os.name != "posix", reason="pipes have a path on POSIX systems alone")
def test_a_pipe_was_no_such_file() -> None:
    """`--config /dev/stdin` and `--config <(...)` of a shell."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b"{mode: 'router'}")
        os.close(writing)
        assert Config.from_file(f"/dev/fd/{reading}").mode is WhatAmI.ROUTER
    finally:
        os.close(reading)


def test_the_variable_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZENOH_CONFIG", raising=False)
    with pytest.raises(ConfigError, match="ZENOH_CONFIG names no file"):
        Config.from_env()
    monkeypatch.setenv("ZENOH_CONFIG", str(write(tmp_path / "a.json5", "{mode: 'client'}")))
    assert Config.from_env().mode is WhatAmI.CLIENT


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666])
def test_secrets_that_every_user_can_read_are_refused(open_folder: Path, mode: int) -> None:
    file = write(open_folder / "node.json5", SECRET, mode)
    with pytest.raises(ConfigError, match="every user may read it; run: chmod o-rwx"):
        Config.from_file(file)
    with pytest.raises(ConfigError, match="every user may read it"):
        read_secret(file)


def test_a_folder_that_nobody_enters_keeps_secrets_too(open_folder: Path) -> None:
    file = write(open_folder / "node.json5", SECRET, 0o644)
    assert is_open_to_all(file)
    open_folder.chmod(0o700)
    assert not is_open_to_all(file)
    assert read_secret(file).reveal() == SECRET


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def test_secrets_of_one_user_are_read(tmp_path: Path, mode: int) -> None:
    file = write(tmp_path / "node.json5", SECRET, mode)
    config = Config.from_file(file)
    assert config.secret("transport/auth/usrpwd/password") == Secret("canary")
    assert read_secret(file).reveal() == SECRET
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)


def test_secrets_are_read_again_where_a_pickle_lands(tmp_path: Path) -> None:
    config = Config.from_file(write(tmp_path / "node.json5", SECRET))
    travelled = pickle.loads(pickle.dumps(config))
    assert travelled.lost_secrets
    assert restore_secrets(travelled) == config
    assert restore_secrets(config) is config
    travelled.origin = None
    with pytest.raises(ConfigError, match="no file is known"):
        restore_secrets(travelled)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        Config.from_file(tmp_path / "nothing.json5")
    with pytest.raises(ConfigError, match="directory"):
        Config.from_file(tmp_path)
    (tmp_path / "latin.json5").write_bytes(b"{mode: '\xe9'}")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 8"):
        Config.from_file(tmp_path / "latin.json5")
    with pytest.raises(ConfigError, match=r"unknown key.*\(in .*typo\.json5\)") as caught:
        Config.from_file(write(tmp_path / "typo.json5", "{mod: 'peer'}"))
    assert caught.value.path == "mod"
    with pytest.raises(ConfigError, match=r"Invalid value.*\(in .*broken\.toml\)"):
        Config.from_file(write(tmp_path / "broken.toml", "mode ="))
    with pytest.raises(LimitError, match="config_len"):
        Config.from_file(write(tmp_path / "long.json5", " " * (1024 * 1024 + 1)))


def test_an_endless_file_is_not_read_to_its_end() -> None:
    if os.path.exists("/dev/zero"):
        with pytest.raises(LimitError, match="config_len"):
            Config.from_file("/dev/zero")


@pytest.mark.parametrize(
    ("variable", "said", "enabled"),
    [
        ("1", None, False),
        ("yes", None, False),
        ("0", None, True),
        ("", None, True),
        (None, None, True),
        ("1", True, True),
        (None, False, False),
    ],
)
def test_the_environment_silences_who_does_not_say_otherwise(
    variable: str | None, said: bool | None, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELEA_NO_SCOUTING", raising=False)
    if variable is not None:
        monkeypatch.setenv("ELEA_NO_SCOUTING", variable)
    multicast = {} if said is None else {"enabled": said}
    config = Config.from_mapping({"scouting": {"multicast": multicast}})
    before = str(config)
    assert in_environment(config).value("scouting/multicast/enabled", bool) is enabled
    assert str(config) == before
