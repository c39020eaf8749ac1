"""Reading the file of users and passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

from elea.config.config import Config
from elea.errors import ConfigError, LimitError
from elea.limits import Limits
from elea.link.accounts import read_accounts


def config(path: Path) -> Config:
    made = Config()
    made.insert_json5("transport/auth/usrpwd/dictionary_file", f'"{path}"')
    return made


def written(folder: Path, data: bytes, mode: int = 0o600) -> Path:
    path = folder / "accounts"
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_without_a_file_everybody_may_connect() -> None:
    assert read_accounts(Config()) is None


def test_one_user_per_line(tmp_path: Path) -> None:
    path = written(tmp_path, b"alice:wonder:land\n\n  bob : builder \n")
    found = read_accounts(config(path))
    assert found is not None
    assert {user: one.reveal() for user, one in found.items()} == {
        b"alice": "wonder:land",
        b"bob": "builder",
    }


def test_a_file_that_names_nobody_let_everybody_in(tmp_path: Path) -> None:
    """A file that an editor or a full disk had emptied opened the router at the next SIGHUP."""
    with pytest.raises(ConfigError, match="names no user: write lines of user:password"):
        read_accounts(config(written(tmp_path, b"\n \n")))


def test_the_second_line_of_a_user_replaced_the_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2: user 'bob' has a line before it"):
        read_accounts(config(written(tmp_path, b"bob:builder\nbob:other\n")))


@pytest.mark.parametrize("line", [b"alice", b":secret", b"alice:", b"\xff:x"])
def test_other_lines_are_refused(line: bytes, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_accounts(config(written(tmp_path, b"bob:builder\n" + line)))


def test_a_file_that_all_can_read_is_refused(open_folder: Path) -> None:
    with pytest.raises(ConfigError, match="chmod"):
        read_accounts(config(written(open_folder, b"bob:builder", 0o644)))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_accounts(config(tmp_path / "none"))


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LimitError):
        read_accounts(config(written(tmp_path, b"bob:builder")), Limits(config_len=5))
