"""The section `plugins/rest`: what is legal, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elea.errors import ConfigError
from elea.secret import Secret
from elea.web.settings import TOKEN_ENV, RestSettings

TOKEN = "correct-horse-battery"


@pytest.mark.parametrize(
    ("http_port", "url"),
    [
        (8000, "http://127.0.0.1:8000"),
        ("8000", "http://127.0.0.1:8000"),
        ("localhost:80", "http://127.0.0.1:80"),
        ("127.0.0.2:0", "http://127.0.0.2:0"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("::1:8000", "http://[::1]:8000"),
    ],
)
def test_where_it_is_served(http_port: Any, url: str) -> None:
    settings = RestSettings.read({"http_port": http_port})
    assert settings.url() == url
    assert settings.is_loopback


@pytest.mark.parametrize(
    "http_port", [None, True, -1, 65_536, "", "x", "example.org:80", "127.0.0.1:", "1:2:3:4", 1.5]
)
def test_an_address_that_is_none(http_port: Any) -> None:
    with pytest.raises(ConfigError, match=r"plugins/rest/http_port.*expected a port up to 65535"):
        RestSettings.read({"http_port": http_port})


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("http_prot", 1, "nearest known one is plugins/rest/http_port"),
        ("zzz", 1, "plugins/rest has allow_open, allowed_hosts"),
        ("allowed_hosts", "a", "a list of: names"),
        ("allowed_hosts/0", [1], "got the number 1"),
        ("allowed_hosts/0", ["http://a"], "names without scheme and port"),
        ("allowed_origins/0", ["panel.example"], "origins such as"),
        ("allowed_origins/0", ["https://panel.example/x"], "origins such as"),
        ("protect", "reads", 'expected one of "writes", "everything"'),
        ("token_file", 1, "expected a path"),
        ("token_file", "/does/not/exist", "No such file"),
        ("allow_open", "yes", "true or false"),
        ("body_len", 0, "a whole number from 1"),
        ("streams_count", True, "a whole number from 1"),
        ("tls_certificate", "cert.pem", "needs tls_certificate and tls_private_key"),
    ],
)
def test_what_is_refused(key: str, value: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        RestSettings.read({"http_port": 8000, key.partition("/")[0]: value})
    assert caught.value.path == f"plugins/rest/{key}"


def test_keys_of_eclipse_are_taken() -> None:
    theirs: dict[str, Any] = {"__path__": ["a"], "__required__": True, "work_thread_num": 2}
    assert RestSettings.read({"http_port": "8000", **theirs}).port == 8000


def test_other_hosts_need_a_token_or_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    section: dict[str, Any] = {"http_port": "[::]:8000"}
    with pytest.raises(ConfigError, match="everybody could write; name a token_file"):
        RestSettings.read(section)
    assert not RestSettings.read({**section, "allow_open": True}).is_loopback
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    assert RestSettings.read(section).token == Secret(TOKEN)


def test_the_token_of_a_file(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENV, "another-token-that-is-long")
    file = open_folder / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    section: dict[str, Any] = {"http_port": 8000, "token_file": str(file)}
    file.chmod(0o604)
    with pytest.raises(ConfigError, match="every user may read"):
        RestSettings.read(section)
    file.chmod(0o600)
    settings = RestSettings.read(section)
    assert settings.token == Secret(TOKEN)
    assert TOKEN not in repr(settings)
    for bad in ("short", "with a space in the middle", "ünicode-ünicode-ünicode"):
        file.write_text(bad, encoding="utf-8")
        with pytest.raises(ConfigError, match="holds no token: 16 printable") as caught:
            RestSettings.read(section)
        assert bad not in str(caught.value)
