"""The section of a Flight door: what is legal, and what would be open to everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elea.config.kinds import Value
from elea.errors import ConfigError
from elea.secret import Secret
from elea.store.flight.settings import SECTION, FlightSettings
from elea.store.log.location import TOKEN_ENV
from elea.store.recorder.section import read_flight

TOKEN = "a-token-that-is-long-enough"
TLS = {"tls_certificate": "/c.pem", "tls_private_key": "/k.pem"}


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_ENV, raising=False)


def read(**section: Any) -> FlightSettings:
    return FlightSettings.read(section)


def test_this_host_needs_neither_tls_nor_a_token() -> None:
    for text in ("grpc://127.0.0.1:8815", "grpc://localhost:8815"):
        settings = read(location=text)
        assert str(settings.location) == "grpc://127.0.0.1:8815"
        assert settings.is_loopback
        assert settings.token is None
    assert read(location="grpc://127.0.0.1:0").told(4711) == "grpc://127.0.0.1:4711"
    assert read(location="grpc://[::1]:8815").is_loopback


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"location": "grpc://0.0.0.0:8815"}, "open to other hosts and is not encrypted"),
        ({"location": "grpc://192.0.2.1:8815"}, "open to other hosts and is not encrypted"),
        ({"location": "grpc+tls://0.0.0.0:8815", **TLS}, "other hosts and asks for no token"),
        ({"location": "grpc+tls://[::]:8815", **TLS}, f"token_file, or the variable {TOKEN_ENV}"),
    ],
)
def test_other_hosts_need_both(
    section: dict[str, Value], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        FlightSettings.read(section)
    assert caught.value.path == "plugins/recorder/flight/location"
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    if "tls_certificate" in section:
        assert FlightSettings.read(section).token == Secret(TOKEN)
    else:  # a token alone would be seen by all
        with pytest.raises(ConfigError, match="is not encrypted"):
            FlightSettings.read(section)


@pytest.mark.parametrize(
    ("section", "key", "complaint"),
    [
        ({}, "location", "expected grpc://HOST:PORT or .*, got nothing"),
        ({"location": 8815}, "location", "got the number 8815"),
        ({"location": "grpc://recorder.local:1"}, "location", "the address of an interface"),
        ({"location": "grpc+tls://127.0.0.1:1"}, "tls_certificate", "needs tls_certificate and"),
        (
            {"location": "grpc://127.0.0.1:1", **TLS},
            "location",
            "expected grpc.tls://HOST:PORT",
        ),
        (
            {"location": "grpc://127.0.0.1:1", "advertise": "x"},
            "advertise",
            "got the text 'x'",
        ),
        ({"location": "grpc://127.0.0.1:1", "token_file": "/no"}, "token_file", "No such file"),
        ({"location": "grpc://127.0.0.1:1", "locaton": "x"}, "locaton", "location"),
    ],
)
def test_what_is_not_legal_is_told(section: dict[str, Any], key: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        FlightSettings.read(section)
    assert caught.value.path == f"plugins/recorder/flight/{key}"


def test_the_token_of_a_file_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    settings = read(location="grpc://127.0.0.1:0", token_file=Secret(str(file)))
    assert settings.token == Secret(TOKEN)
    assert TOKEN not in repr(settings)
    file.write_text("short")
    with pytest.raises(ConfigError, match="holds no token: 16 printable"):
        read(location="grpc://127.0.0.1:0", token_file=str(file))


def test_what_readers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    everywhere = {"location": "grpc+tls://0.0.0.0:8815", **TLS}
    assert read(**everywhere).told(8815) is None  # by which name is not known
    named = "grpc+tls://recorder.example:443"
    assert read(**everywhere, advertise=named).told(8815) == named


def test_a_section_is_an_object_or_not_there() -> None:
    assert read_flight({}) is None
    with pytest.raises(ConfigError, match="expected an object, got"):
        read_flight({"flight": "grpc://127.0.0.1:0"})
    assert read_flight({"flight": {"location": "grpc://127.0.0.1:0"}}) is not None
    assert all(key.kind.legal and key.meaning for key in SECTION.keys)
