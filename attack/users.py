"""What attacks on services share: users with rules, and a router that records and serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attack.harness import Target

import elea

TOKEN: Final = "a-token-for-those-who-write"
_ALL: Final = [  # no "reply": what is denied is asked for, not given
    *("put", "delete", "declare_subscriber", "query", "declare_queryable"),
    *("liveliness_token", "declare_liveliness_subscriber", "liveliness_query"),
]
_DENY: Final = {"id": "deny", "permission": "deny", "messages": _ALL, "key_exprs": ["secret/**"]}


def login(user: str) -> dict[str, object]:
    """What a client needs to be a user."""
    account = {"user": user, "password": f"{user}-password"}
    return {"transport": {"auth": {"usrpwd": account}}}


def client(target: Target, user: str) -> elea.Session:
    """A client that is a user."""
    return elea.open({**target.client_settings(), **login(user)})


def services(folder: Path, port: int) -> dict[str, object]:
    """A router with a recorder, a historian and REST."""
    recording = {"key_exprs": ["fleet/**", "secret/**"], "low_water_percent": 0}
    recorder = {"directory": str(folder / "logs"), "recordings": {"all": recording}}
    return {
        "plugins/recorder": recorder,
        "plugins/historian": {"logs": str(folder / "logs" / "all")},
        "plugins/rest": {"http_port": port, "token_file": secret(folder / "token", TOKEN)},
        "timestamping/enabled": True,
    }


def guarded(folder: Path, port: int) -> dict[str, object]:
    """The same, with users; mallory may do nothing on `secret/**`."""
    users = secret(folder / "users", "anna:anna-password\nmallory:mallory-password\n")
    return {
        **services(folder, port),
        "transport/auth/usrpwd/dictionary_file": users,
        "access_control": {
            "enabled": True,
            "default_permission": "allow",
            "rules": [_DENY],
            "subjects": [{"id": "mallory", "usernames": ["mallory"]}],
            "policies": [{"rules": ["deny"], "subjects": ["mallory"]}],
        },
    }


def secret(path: Path, text: str) -> str:
    """A file that only we read."""
    path.touch(0o600)
    path.write_text(text)
    return str(path)


def answers(session: elea.Session, selector: str, **more: object) -> list[bytes]:
    """The payloads of replies that are no errors."""
    found = session.get(selector, timeout=20, **more)  # type: ignore[call-overload]
    return [one.ok.payload.to_bytes() for one in found if one.ok is not None]


def offsets(session: elea.Session) -> Mapping[str, object]:
    """The consumers of the log."""
    [info] = answers(session, "@elea/log/all/info")
    found: Mapping[str, object] = json.loads(info)["consumers"]
    return found
