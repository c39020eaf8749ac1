"""Where definitions come from: given, kept, asked for, shipped, installed (R2-321 to R2-325)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from elea.atomic_file import replace_text
from elea.errors import ConfigError, InvalidValueError, UnknownTypeError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.definitions import split_text
from elea.ros.formats.kept import KEPT, Entries, kept_text, parse_kept
from elea.ros.formats.keys import NO_HASH
from elea.ros.formats.library import ActionType, Library, MessageType, ServiceType
from elea.ros.formats.messages import Message
from elea.ros.formats.names import long_type
from elea.ros.formats.shipped import DEFAULT_RELEASE, RELEASES, shipped

_log: Final = logging.getLogger("elea.ros")
_SUFFIXES: Final = {".msg": "msg", ".srv": "srv", ".action": "action"}
_UNTRUSTED: Final = (  # what bridges write and nothing has (R2-356)
    "RIHS01_" + "0" * 64,
    "RIHS01_91a0593bacdcc50e",
)
T = TypeVar("T", MessageType, ServiceType)


@dataclass(frozen=True)
class Found:
    """A definition for data of a hash.

    Attributes:
        hash_ok: False if it has another hash, and was taken by its name alone.
    """

    kind: MessageType
    hash_ok: bool


class Types:
    """All definitions that are known; the first source that has the hash wins.

    Args:
        paths: Files and directories of `.msg`, `.srv` and `.action`, and MCAP files.
        release: Whose definitions are taken for a name alone, as `jazzy`.
        trust_names: Decode with a definition of another hash, and mark the rows.

    Raises:
        ConfigError: a path cannot be used.

    Example:
        >>> Types()["std_msgs/msg/String"](data="hi").data
        'hi'
    """

    def __init__(
        self,
        paths: Iterable[str | Path] = (),
        *,
        release: str | None = None,
        trust_names: bool = False,
    ) -> None:
        chosen = release or os.environ.get("ROS_DISTRO", "")
        self.release = chosen if release or chosen in RELEASES else DEFAULT_RELEASE
        shipped(self.release)
        self.trust_names = trust_names
        self.ask: Callable[[str, str], bool] | None = None  # the fleet; adds what it tells
        self._lock = threading.RLock()
        self._given = [library for path in paths for library in self._of_path(Path(path))]
        self._kept: dict[tuple[str, str], Library] = {}
        self._used: dict[tuple[str, str], MessageType] = {}
        self._told: set[tuple[str, str]] = set()

    def __getitem__(self, name: str) -> type[Message]:
        """The class of a type.

        Raises:
            UnknownTypeError: there is no definition of it.
        """
        return self.message(name).cls

    def message(self, name: str, hash: str | None = None) -> MessageType:
        """A message type, by its hash if one is given.

        Raises:
            UnknownTypeError: there is no definition of it, or none of that hash.
        """
        return self.find(name, hash).kind

    def find(self, name: str, hash: str | None = None) -> Found:
        """As `message`, and whether the hash is right."""
        try:
            name = long_type(name)
        except InvalidValueError as error:
            if hash is None:
                raise
            # With a hash it is what a token or a key of strangers says: data of no known type.
            raise UnknownTypeError(name, hash, f"no definition of {name!a}: {error}") from None
        found, is_exact = self._lookup(name, hash, lambda library: library.message(name))
        with self._lock:
            self._used[found.name, found.hash] = found
            if len(self._used) > DEFAULT_LIMITS.ros2_types_count:
                self._used.pop(next(iter(self._used)))
        return Found(found, is_exact)

    def service(self, name: str, hash: str | None = None) -> ServiceType:
        """A service; raises as `message`."""
        name = long_type(name, "srv")
        return self._lookup(name, hash, lambda library: library.service(name))[0]

    def action(self, name: str) -> ActionType:
        """An action, by its name.

        Raises:
            UnknownTypeError: there is no definition of it.
        """
        name = long_type(name, "action")
        for library in self._libraries(self.release):
            if name in library:
                return library.action(name)
        raise UnknownTypeError(name, "", f"no definition of {name}; give --types")

    def add_text(self, name: str, text: str, source: str) -> MessageType:
        """Take a definition, with those it uses behind it.

        Raises:
            ConfigError: it cannot be read.
        """
        library = Library.of_text(text, name, source)
        return self._add(library, name)

    def add_files(self, name: str, files: Mapping[str, str], source: str) -> MessageType:
        """Take the definition of a type from texts by name; raises as `add_text`."""
        return self._add(Library(dict(files), source), name)

    def _add(self, library: Library, name: str) -> MessageType:
        kind = library.message(name)
        with self._lock:
            self._kept[kind.name, kind.hash] = library
            if len(self._kept) > DEFAULT_LIMITS.ros2_types_count:
                self._kept.pop(next(iter(self._kept)))
        return kind

    def tell_once(self, error: UnknownTypeError) -> bool:
        """Whether this was not told before; it is logged then (R2-325)."""
        with self._lock:
            if (error.name, error.hash) in self._told:
                return False
            self._told.add((error.name, error.hash))
        _log.warning("%s", error.reason)
        return True

    def keep(self, directory: Path) -> int:
        """Write the definitions that were used beside a log; how many (R2-324)."""
        with self._lock:
            entries = {
                kind.hash: {"name": kind.name, "text": kind.text, "source": kind.source}
                for kind in self._used.values()
            }
        return keep_definitions(directory, entries)

    def load(self, directory: Path) -> int:
        """Take the definitions that were kept beside a log; how many."""
        found = _read_kept(directory / KEPT)
        for entry in found.values():
            self.add_text(entry["name"], entry["text"], f"kept with {directory.name}")
        return len(found)

    def given(self) -> Iterator[tuple[str, Library]]:
        """What users gave, by name."""
        for library in self._given:
            for name in library.names():
                yield name, library

    def _libraries(self, release: str, kept: Iterable[Library] = ()) -> Iterator[Library]:
        yield from self._given
        yield from kept
        yield shipped(release)
        yield from (shipped(one) for one in RELEASES if one != release)
        installed = _installed(release)
        if installed is not None:
            yield installed

    def _lookup(self, name: str, hash: str | None, get: Callable[[Library], T]) -> tuple[T, bool]:
        has_hash = hash is not None and hash != NO_HASH and not hash.startswith(_UNTRUSTED)
        release = "humble" if hash == NO_HASH else self.release
        with self._lock:
            kept = [one for (known, _), one in self._kept.items() if known == name]
        by_name: T | None = None
        for library in self._libraries(release, kept):
            if name not in library:
                continue
            try:
                kind = get(library)
            except KeyError:
                continue
            if not has_hash or kind.hash == hash:
                return kind, True
            by_name = by_name or kind
        assert hash is None or isinstance(hash, str)
        if has_hash and hash is not None and self.ask is not None and self.ask(name, hash):
            with self._lock:
                library = self._kept[name, hash]
            return get(library), True
        if by_name is not None and self.trust_names:
            return by_name, False
        raise _unknown(name, hash or "", by_name)

    def _of_path(self, path: Path) -> list[Library]:
        if path.is_dir():
            return [Library(dict(_files_below(path)), str(path))]
        if path.suffix == ".mcap":  # a name may have several definitions there
            return [Library(files, str(path)) for files in _files_of_mcap(path)]
        if path.suffix in _SUFFIXES:
            return [Library(_files_of_text(path), str(path))]
        reason = f"{path}: expected a directory, or a file of .msg, .srv, .action or .mcap"
        raise ConfigError("types", reason)


def _unknown(name: str, hash: str, other: Any) -> UnknownTypeError:
    short = hash[:11] + "…" if hash.startswith("RIHS01_") else hash
    if other is not None:
        seen = other.hash[:11] + "…"
        return UnknownTypeError(name, hash, f"definition of {name} is {seen}, data is {short}")
    advice = "give --types, or record while a node answers get_type_description"
    named = f"{name} {short}".strip()
    return UnknownTypeError(name, hash, f"no definition of {named}; {advice}")


def _files_below(directory: Path) -> Iterator[tuple[str, str]]:
    """A share tree, `<package>/{msg,srv,action}/Name.*`, or the folder of one package."""
    for path in sorted(directory.rglob("*")):
        kind = _SUFFIXES.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        folders = path.resolve().parts
        package = folders[-3] if folders[-2] == kind else folders[-2]
        yield long_type(f"{package}/{kind}/{path.stem}"), _text(path)


def _files_of_text(path: Path) -> dict[str, str]:
    """One file, which may have `MSG:` parts behind it."""
    kind = _SUFFIXES[path.suffix]
    folders = path.resolve().parts
    package = folders[-3] if folders[-2] == kind else folders[-2]
    safe = "".join(char if char.isalnum() else "_" for char in package)
    name = long_type(f"{safe if safe[:1].isalpha() else 'pkg'}/{kind}/{path.stem}")
    return split_text(_text(path), name) if kind == "msg" else {name: _text(path)}


def _files_of_mcap(path: Path) -> Iterator[dict[str, str]]:
    from elea.store.exchange.mcap_ros import schemas_of  # late: it needs an optional package

    for name, text in schemas_of(path):
        yield split_text(text, name)


def _text(path: Path) -> str:
    if path.stat().st_size > DEFAULT_LIMITS.ros2_definition_len:
        limit = DEFAULT_LIMITS.ros2_definition_len
        raise ConfigError("types", f"{path}: exceeds ros2_definition_len ({limit})")
    return path.read_text(encoding="utf-8", errors="replace")


def _installed(release: str) -> Library | None:
    """The type store of rosbags, for what is not shipped."""
    try:
        from rosbags.typesys import Stores, get_typestore
    except ModuleNotFoundError:
        return None
    store = get_typestore(Stores[f"ROS2_{release.upper()}"])
    return Library(_RosbagsFiles(store), "rosbags")


class _RosbagsFiles(Mapping[str, str]):
    """The texts of a type store, made when they are asked for."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getitem__(self, name: str) -> str:
        if name not in self._store.fielddefs:
            raise KeyError(name)
        text, _ = self._store.generate_msgdef(name, ros_version=2)
        return str(text).partition("\n====")[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.fielddefs)

    def __len__(self) -> int:
        return len(self._store.fielddefs)


def _read_kept(file: Path) -> Entries:
    try:
        return parse_kept(file.read_text(encoding="utf-8"))
    except OSError:
        return {}


def keep_definitions(directory: Path, entries: Entries) -> int:
    """Add definitions to those kept beside a log; how many there are (R2-324)."""
    file = directory / KEPT
    known = _read_kept(file)
    merged = {**known, **entries}
    if merged != known:
        replace_text(file, kept_text(merged))
    return len(merged)
