"""Values that stay: storages, durable logs, and what records, replays and answers from them.

The names for programs are here and are loaded on first use: a router without the extra `arrow`
imports modules of this package, too.
"""

# Where each public name is defined; the imports for type checkers below are the same.
_HOME_OF = {
    "Historian": "elea.store.historian.historian",
    "LogReader": "elea.store.log.reader",
    "LogSource": "elea.store.historian.source",
    "Recorder": "elea.store.recorder.recorder",
    "RecordingSettings": "elea.store.recorder.settings",
    "Replay": "elea.store.replay.replay",
    "ReplaySettings": "elea.store.replay.settings",
    "Selection": "elea.store.exchange.transfer",
    "export_file": "elea.store.exchange.transfer",
    "import_file": "elea.store.exchange.transfer",
    "open_table": "elea.store.tables.table",
}

__all__ = [*_HOME_OF]

TYPE_CHECKING = False  # `typing` is not imported for this
if TYPE_CHECKING:
    from elea.store.exchange.transfer import Selection as Selection
    from elea.store.exchange.transfer import export_file as export_file
    from elea.store.exchange.transfer import import_file as import_file
    from elea.store.historian.historian import Historian as Historian
    from elea.store.historian.source import LogSource as LogSource
    from elea.store.log.reader import LogReader as LogReader
    from elea.store.recorder.recorder import Recorder as Recorder
    from elea.store.recorder.settings import RecordingSettings as RecordingSettings
    from elea.store.replay.replay import Replay as Replay
    from elea.store.replay.settings import ReplaySettings as ReplaySettings
    from elea.store.tables.table import open_table as open_table
else:

    def __getattr__(name):
        from importlib import import_module

        if name not in _HOME_OF:
            raise AttributeError(f"module 'elea.store' has no attribute {name!r}")
        try:
            value = getattr(import_module(_HOME_OF[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("elea"):
                raise
            from elea.errors import MissingDependencyError

            raise MissingDependencyError(f"elea.store.{name}", "arrow") from error
        globals()[name] = value  # the next access costs nothing
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
