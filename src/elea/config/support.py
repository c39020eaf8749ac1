"""Refuses what a configuration asks for and no code does."""

from __future__ import annotations

from elea.config.config import Config
from elea.config.kinds import describe
from elea.config.schema import BY_PATH, Key
from elea.errors import ConfigError


def check_supported(config: Config) -> None:
    """Check that every key that is set has the effect it has in Eclipse Zenoh.

    A default that is spelled out passes, and so does a value that changes nothing.

    Raises:
        ConfigError: naming the key, its value, why it has no effect and what to do.
    """
    for path in config.paths():
        key = BY_PATH[path]
        if key.inert is not None:
            _check(config, key)


def _check(config: Config, key: Key) -> None:
    inert = key.inert
    assert inert is not None
    value = config.get(key.path)
    if not (inert.any_value or value == key.default or value in inert.accepted):
        raise ConfigError(
            key.path,
            f"got {describe(value)}, which would have no effect: {inert.why}; {inert.advice}",
        )
