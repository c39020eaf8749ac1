"""Authorizers: functions of users that have a word in access control, by entry point.

A package brings one as an entry point of the group `elea.authorizers`; `elea/authorizer` in the
configuration names it. It is called as `authorize(identity, action, key)` after the rules allowed
something, by the thread that reads links: it has to be quick, and True alone allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from elea.config.config import Config
from elea.errors import ConfigError
from elea.policy.access import Verdict
from elea.policy.identity import Identity
from elea.policy.rules import AUTHORIZER, Authorize

GROUP: Final = "elea.authorizers"
_LOG: Final = logging.getLogger("elea.link")


def read_authorizer(config: Config) -> Authorize | None:
    """The authorizer that a configuration names; None if it names none.

    Raises:
        ConfigError: nobody brings one of that name, or it cannot be loaded.
    """
    name = config.get(AUTHORIZER)
    if not isinstance(name, str):
        return None
    from importlib.metadata import entry_points  # late: slow to import, and few name one

    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        known = ", ".join(sorted(one.name for one in entry_points(group=GROUP))) or "none"
        raise ConfigError(
            AUTHORIZER, f"no package brings {name!a} as entry point of {GROUP}; installed: {known}"
        )
    try:
        authorize = found.load()
    except Exception as error:  # the user's module: whatever it raises, it cannot be used
        raise ConfigError(AUTHORIZER, f"{found.value} cannot be loaded: {error}") from error
    return guarded(authorize)


def guarded(authorize: Callable[[Identity, str, str], object]) -> Authorize:
    """An authorizer that never raises, and allows by True alone."""

    def ask(identity: Identity, action: str, key: str) -> Verdict:
        try:
            answer = authorize(identity, action, key)
        except Exception as error:  # the user's code: nothing passes then
            _LOG.exception("the authorizer failed: %s on %s is denied", action, key)
            return Verdict(False, None, f"the authorizer raised {type(error).__name__}")
        word = "allowed" if answer is True else "denied"
        return Verdict(answer is True, None, f"{word} by the authorizer")

    return ask
