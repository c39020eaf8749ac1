"""StorageManager: the service `storage_manager`, which runs the storages that are configured.

One volume or storage that cannot be opened leaves the others alone. Its status says why, and it is
tried again until it can be, unless the configuration or a missing package is the reason. A change
of the configuration touches the storages whose own part of it, or whose volume's, has changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from elea.config.kinds import Value, public
from elea.errors import ConfigError, MissingDependencyError, StoreError
from elea.json5 import Json
from elea.session.session import Session
from elea.store import volumes
from elea.store.backend import (
    ChecksOptions,
    HasDirectories,
    OpenVolume,
    Reports,
    Served,
    Serves,
    StorageConfig,
    Volume,
    VolumeConfig,
)
from elea.store.backends.disk import check_directory
from elea.store.service import StorageService, described
from elea.store.settings import NAME, ManagerConfig
from elea.store.storage import Storage
from elea.version import VERSION

_LOG: Final = logging.getLogger("elea.store")
_RETRY_S: Final = 5.0  # between two attempts to open volumes and storages
_LASTING: Final = (ConfigError, MissingDependencyError)  # the next attempt would end the same way

Settings: TypeAlias = Mapping[str, Value]


class _OpenVolume:
    """A volume that is configured; if it could not be opened, why, and whether that may change."""

    def __init__(self, config: VolumeConfig, find: volumes.Find) -> None:
        self.config = config
        self.path = ""
        self.volume: Volume | None = None
        self.error: str | None = None
        self.may_retry = False
        self._made: OpenVolume | None = None
        try:
            entry = find(config.backend)
            self.path = entry.value
            self._made = volumes.load(entry)
        except Exception as error:  # somebody else's volume: it may raise anything
            self._failed(error)
        else:
            self.open()

    def open(self) -> None:
        """Open it, or keep why that failed."""
        assert self._made is not None
        try:
            self.volume = self._made(self.config)
        except Exception as error:  # as above
            self.may_retry = not isinstance(error, _LASTING)
            self._failed(error)
        else:
            self.error, self.may_retry = None, False

    def _failed(self, error: Exception) -> None:
        if self.error != str(error):  # once for each reason
            then = f", retrying every {_RETRY_S:g} s" if self.may_retry else ""
            _LOG.error("volume %s cannot be opened%s: %s", self.config.name, then, error)
        self.error = str(error)

    def close(self) -> None:
        """Let go of it; its storages are closed."""
        if self.volume is not None:
            try:
                self.volume.close()
            except Exception:  # as above
                _LOG.exception("volume %s did not close as it should", self.config.name)

    def status(self) -> Json:
        shown = {name: public(value) for name, value in self.config.options.items()}
        state: Json = "Started" if self.error is None else "Failed"
        failure: dict[str, Json] = {} if self.error is None else {"error": self.error}
        return {**shown, "backend": self.config.backend, "state": state, **failure}


class _Failure(NamedTuple):
    """A storage that could not be started."""

    config: StorageConfig
    reason: str
    may_retry: bool


class StorageManager:
    """The storages of a node.

    Args:
        session: The node's.
        settings: The section `plugins/storage_manager`.
        find: Gives the volume of a name.

    Raises:
        ConfigError: the section is not legal, or the node gives no timestamps.
    """

    def __init__(
        self, session: Session, settings: Settings, find: volumes.Find = volumes.find
    ) -> None:
        if not session.config.value("timestamping/enabled", bool):
            raise ConfigError(
                f"plugins/{NAME}",
                "storages need timestamps, and timestamping/enabled is false on this node",
            )
        self._session = session
        self._find = find
        self._config = ManagerConfig.read({})
        self._volumes: dict[str, _OpenVolume] = {}
        self._running: dict[str, Served] = {}
        self._failed: dict[str, _Failure] = {}
        self._lock = threading.Lock()  # volumes and storages are opened and closed under it
        self._stopping = threading.Event()
        self._retrying: threading.Thread | None = None
        self.change(settings)

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Whether a section is legal; nothing is opened.

        Raises:
            ConfigError: it is not.
        """
        ManagerConfig.read(settings)

    @classmethod
    def check_parts(cls, settings: Settings) -> None:
        """Whether all volumes and storages of a section could be opened, as far as that is known.

        Raises:
            ConfigError: one could not; the others run without it.
        """
        config = ManagerConfig.read(settings)
        for name, volume in config.volumes.items():
            try:
                made: object = volumes.load(volumes.find(volume.backend))
                if isinstance(made, ChecksOptions):
                    made.check(volume, [x for x in config.storages.values() if x.volume == name])
            except StoreError as error:
                raise ConfigError(f"plugins/{NAME}/volumes/{name}", str(error)) from None
            except ConfigError as error:
                raise ConfigError(f"plugins/{NAME}/{error.path}", error.reason) from None
        for name, storage in config.storages.items():
            if storage.volume not in config.volumes:
                raise _no_volume(name, storage.volume, config.volumes)
        users: dict[tuple[str, Path], str] = {}
        for volume, found in _directories(config):
            for name, directory in found.items():
                path = f"plugins/{NAME}/storages/{name}/volume"
                other = users.setdefault((volume.backend, directory.resolve()), name)
                if other != name:
                    reason = f"the storage {other} has {directory}; give one of them another `dir`"
                    raise ConfigError(path, reason)
                check_directory(directory, path)

    @classmethod
    def makes(cls, settings: Settings) -> Iterable[Path]:
        """Return the directories of storages whose options are legal."""
        found = _directories(ManagerConfig.read(settings))
        return [one for _, directories in found for one in directories.values()]

    def change(self, settings: Settings) -> None:
        """Run what a section says, and leave alone what it says as before.

        Raises:
            ConfigError: the section is not legal; nothing has changed.
        """
        new = ManagerConfig.read(settings)
        with self._lock:
            self._change(new)
            if self._retrying is None and self._may_retry():
                self._retrying = threading.Thread(
                    target=self._retry, name="storage retries", daemon=True
                )
                self._retrying.start()

    def status(self) -> Mapping[str, Json]:
        """Values below `status/plugins/storage_manager`."""
        found: dict[str, Json] = {"version": VERSION}
        for name, volume in list(self._volumes.items()):
            found[f"volumes/{name}"] = volume.status()
            found[f"volumes/{name}/__path__"] = volume.path
        for name, running in list(self._running.items()):
            found[f"storages/{name}"] = running.status()
        for name, one in list(self._failed.items()):
            failure: dict[str, Json] = {"state": "Failed", "error": one.reason}
            found[f"storages/{name}"] = {**described(one.config), **failure}
        return found

    def stop(self) -> None:
        """Keep what has come, and close everything."""
        self._stopping.set()
        with self._lock:
            for name in list(self._running):
                self._stop(name)
            for volume in self._volumes.values():
                volume.close()
            self._volumes.clear()
            retrying = self._retrying
        if retrying is not None:
            retrying.join()

    def _change(self, new: ManagerConfig) -> None:
        stale = {name for name, one in self._volumes.items() if new.volumes.get(name) != one.config}
        for name, running in list(self._running.items()):
            if running.config.volume in stale or new.storages.get(name) != running.config:
                self._stop(name)
        for name in stale:
            self._volumes.pop(name).close()
        for name, volume in new.volumes.items():
            if name not in self._volumes:
                self._volumes[name] = _OpenVolume(volume, self._find)
        self._failed.clear()
        for name, storage in new.storages.items():
            if name not in self._running:
                self._start(storage)
        self._config = new

    def _may_retry(self) -> bool:
        return any(one.may_retry for one in self._volumes.values()) or any(
            one.may_retry for one in self._failed.values()
        )

    def _retry(self) -> None:
        """Open volumes and storages that could not be opened, as soon as they can be."""
        while not self._stopping.wait(_RETRY_S):
            with self._lock:
                if self._stopping.is_set():
                    return
                for volume in self._volumes.values():
                    if volume.may_retry:
                        volume.open()
                for one in list(self._failed.values()):
                    if one.may_retry:
                        self._start(one.config)
                if not self._may_retry():
                    self._retrying = None
                    return

    def _start(self, config: StorageConfig) -> None:
        try:
            self._running[config.name] = self._opened(config)
        except Exception as error:  # somebody else's volume: the other storages start all the same
            before = self._failed.get(config.name)
            volume = self._volumes.get(config.volume)
            may_retry = not isinstance(error, _LASTING) or (volume is not None and volume.may_retry)
            self._failed[config.name] = _Failure(config, str(error), may_retry)
            if before is None or before.reason != str(error):  # once for each reason
                then = f", retrying every {_RETRY_S:g} s" if may_retry else ""
                _LOG.error("storage %s cannot be started%s: %s", config.name, then, error)
        else:
            self._failed.pop(config.name, None)
            _LOG.info(
                "storage %s keeps %s in volume %s", config.name, config.key_expr, config.volume
            )

    def _opened(self, config: StorageConfig) -> Served:
        opened = self._volumes.get(config.volume)
        if opened is None:
            raise _no_volume(config.name, config.volume, self._volumes)
        if opened.volume is None:
            raise ConfigError(f"plugins/{NAME}/volumes/{config.volume}", str(opened.error))
        if isinstance(opened.volume, Serves):
            return opened.volume.serve(self._session, config)
        backend = opened.volume.open(config)
        try:
            storage = Storage(backend, config.key_expr, config.strip_prefix)
            reports = backend if isinstance(backend, Reports) else None
            return StorageService(self._session, config, storage, reports)
        except BaseException:
            backend.close()
            raise

    def _stop(self, name: str) -> None:
        self._running[name].stop()
        del self._running[name]  # now: who no longer sees it is not answered by it any more
        _LOG.info("storage %s stopped", name)


def _directories(config: ManagerConfig) -> Iterator[tuple[VolumeConfig, Mapping[str, Path]]]:
    """The directories of storages by their names, for each volume that can be used."""
    for name, volume in config.volumes.items():
        storages = [one for one in config.storages.values() if one.volume == name]
        found: Mapping[str, Path] = {}
        with suppress(StoreError, ConfigError):  # `check_parts` and the start say what is wrong
            made: object = volumes.load(volumes.find(volume.backend))
            if isinstance(made, HasDirectories):
                found = made.directories(volume, storages)
        yield volume, found


def _no_volume(storage: str, volume: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"plugins/{NAME}/storages/{storage}/volume",
        f"saw {volume!a}; the volumes that are configured are {', '.join(sorted(known))}",
    )
