"""What a session is opened with, and what it takes from that."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from elea.config.config import Config
from elea.session.face import SessionSettings
from elea.session.publication_qos import PublicationQos

IntoConfig = Config | Mapping[str, object] | str | PathLike[str]


def config_of(config: IntoConfig | None) -> Config:
    """The configuration in any form that `open` takes."""
    if config is None:
        return Config()
    if isinstance(config, Config):
        return config.__copy__()
    if isinstance(config, Mapping):
        return Config.from_mapping(config)
    if isinstance(config, (str, PathLike)):
        return Config.from_file(str(config))
    raise TypeError(f"expected a Config, a mapping or a path, got {type(config).__name__}")


def child_config(config: Config) -> Config:
    """The configuration of a session that takes up another's work elsewhere.

    It is another node, and does not listen where the first one does.
    """
    child = config.__copy__()
    child.insert_json5("id", "null")
    child.insert_json5("listen/endpoints", "[]")
    return child


def settings_of(config: Config) -> SessionSettings:
    """What a session takes from its configuration."""
    namespace = config.get("namespace")
    return SessionSettings(
        namespace=namespace if isinstance(namespace, str) else "",
        query_timeout_ns=config.value("queries_default_timeout", int) * 1_000_000,
        timestamping=config.value("timestamping/enabled", bool),
        publication=PublicationQos.from_config(config),
    )
