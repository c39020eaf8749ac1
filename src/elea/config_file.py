"""Reading configuration files: the I/O that `elea.config` leaves out.

A file that holds secrets and that every user of the machine can read is refused.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, TypeVar

from elea.config import Config
from elea.errors import ConfigError, LimitError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.secret import Secret

C = TypeVar("C", bound=Config)
NO_SCOUTING_ENV: Final = "ELEA_NO_SCOUTING"
_YAML_ENDINGS: Final = (".yaml", ".yml")
_TOML_ENDING: Final = ".toml"
_TOKEN_LEN_MIN: Final = 16  # shorter ones can be guessed over the network


def read_config(cls: type[C], path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> C:
    """The configuration in a file: YAML or TOML if its name says so, else JSON5.

    Raises:
        ConfigError: if it cannot be read or is not legal, or if it holds secrets and other users
            may read it.
        LimitError: if it is larger than the limits allow.
    """
    file = Path(path)
    text, exposed = _read_text(file, limits)
    try:
        if file.suffix.lower() in _YAML_ENDINGS:
            config = cls.from_yaml(text, limits)
        elif file.suffix.lower() == _TOML_ENDING:
            config = cls.from_mapping(_read_toml(text), limits)
        else:
            config = cls.from_json5(text, limits)
    except ConfigError as error:
        raise ConfigError(error.path, f"{error.reason} (in {file})") from None
    if config.has_secrets() and exposed:
        raise _exposed(file)
    config.origin = str(file)
    return config


def read_config_from_env(cls: type[C], limits: Limits = DEFAULT_LIMITS) -> C:
    """The configuration in the file that `ZENOH_CONFIG` names.

    Raises:
        ConfigError: if the variable is not set, or as `read_config`.
    """
    path = os.environ.get(Config.DEFAULT_CONFIG_PATH_ENV)
    if not path:
        raise ConfigError("", f"the variable {Config.DEFAULT_CONFIG_PATH_ENV} names no file")
    return read_config(cls, path, limits)


def in_environment(config: Config) -> Config:
    """The configuration of a node in this process.

    With `ELEA_NO_SCOUTING=1` in the environment, a node whose configuration does not say
    `scouting/multicast/enabled` itself neither looks for others by multicast nor answers them:
    for tests, and wherever a program must be silent that brings its own configuration.
    """
    path = "scouting/multicast/enabled"
    if os.environ.get(NO_SCOUTING_ENV) in (None, "", "0") or config.get_json(path) != "null":
        return config
    silent = config.__copy__()
    silent.insert_json5(path, "false")
    return silent


def restore_secrets(config: Config) -> Config:
    """The configuration with the secrets that did not travel, read again from its file.

    Raises:
        ConfigError: if it came from no file, or as `read_config`.
    """
    if not config.lost_secrets:
        return config
    if config.origin is None:
        raise ConfigError(
            config.lost_secrets[0], "its secret did not travel, and no file is known to hold it"
        )
    return config.with_secrets_of(read_config(type(config), config.origin))


def read_secret(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Secret:
    """The text of a key or password file.

    Raises:
        ConfigError: if it cannot be read, or if other users may read it.
        LimitError: if it is larger than a configuration may be.
    """
    file = Path(path)
    text, exposed = _read_text(file, limits)
    if exposed:
        raise _exposed(file)
    return Secret(text)


def read_token(file: str | None, variable: str, path: str) -> Secret | None:
    """The token of a file, or else that of a variable of the environment.

    Raises:
        ConfigError: of the key `path`: the file cannot be used, or what is there is no token.
    """
    text, where = os.environ.get(variable), f"the variable {variable}"
    if file is not None:
        where = file
        try:
            text = read_secret(file).reveal().strip()
        except ConfigError as error:
            raise ConfigError(path, error.reason) from None
    if text is None:
        return None
    if len(text) < _TOKEN_LEN_MIN or not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigError(
            path,
            f"{where} holds no token: {_TOKEN_LEN_MIN} printable ASCII characters or more are"
            " legal, without spaces",
        )
    return Secret(text)


def is_open_to_all(path: str | os.PathLike[str]) -> bool:
    """Whether every user of the machine can read a file: by its mode and its folders'.

    Raises:
        OSError: there is no such file.
    """
    if os.name != "posix":
        return False
    file = Path(path)
    if not file.stat().st_mode & stat.S_IROTH:
        return False  # also a pipe, as /dev/stdin or the shell's <(...): it resolves to no path
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in file.resolve().parents)


def _read_text(file: Path, limits: Limits) -> tuple[str, bool]:
    """The text, and whether every user of the machine can read it."""
    try:
        exposed = is_open_to_all(file)
        with file.open("rb") as stream:
            data = stream.read(limits.config_len + 1)
    except OSError as error:
        raise ConfigError("", f"{file}: {error.strerror}") from None
    if len(data) > limits.config_len:
        raise LimitError("config_len", len(data), limits.config_len)
    try:
        return data.decode(), exposed
    except UnicodeDecodeError as error:
        raise ConfigError("", f"{file}: not UTF-8 at byte {error.start}") from None


def _read_toml(text: str) -> dict[str, object]:
    import tomllib  # few programs have a TOML configuration

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("", str(error)) from None


def _exposed(file: Path) -> ConfigError:
    return ConfigError(
        "", f"{file} holds secrets and every user may read it; run: chmod o-rwx {file}"
    )
