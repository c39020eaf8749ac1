"""Recorder: recordings on one session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.session.session import Session
from elea.store.flight.door import Door
from elea.store.recorder.counts import Counts
from elea.store.recorder.recording import Recording
from elea.store.recorder.settings import RecordingSettings


class Recorder:
    """Records what is published into durable logs, until `stop`.

    Args:
        session: Whose samples are recorded.
        settings: The recordings.
        limits: How much is remembered, and how many may wait.
        door: By which the logs can be read over Flight, while it is open.

    Raises:
        StoreError: a log cannot be opened; nothing is recorded then.
        ClosedError: the session is closed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import elea
        >>> fleet = RecordingSettings(
        ...     key_exprs=("fleet/**",), name="fleet", directory=Path(tempfile.mkdtemp())
        ... )
        >>> config = elea.Config()
        >>> config.insert_json5("scouting/multicast/enabled", "false")
        >>> with elea.open(config) as session:
        ...     with Recorder(session, [fleet]) as recorder:
        ...         session.put("fleet/r1", "here")
        ...     recorder.counts().rows
        1
    """

    def __init__(
        self,
        session: Session,
        settings: Iterable[RecordingSettings],
        *,
        limits: Limits = DEFAULT_LIMITS,
        door: Door | None = None,
    ) -> None:
        self._recordings: list[Recording] = []
        try:
            for one in settings:
                self._recordings.append(Recording(session, one, limits=limits, door=door))
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def recordings(self) -> list[Recording]:
        """Each of them."""
        return list(self._recordings)

    def counts(self) -> Counts:
        """What became of samples, over all recordings."""
        total = Counts()
        for recording in self._recordings:
            total.add(recording.counts())
        return total

    def status(self) -> Mapping[str, Json]:
        """Values by name of the recording."""
        return {one.settings.name: one.status() for one in self._recordings}

    def stop(self) -> None:
        """Take no more, keep what has come, and close the logs."""
        for one in self._recordings:
            one.stop()
