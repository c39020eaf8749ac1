"""Elea: the Zenoh data space in Python, with Apache Spark as its data pipeline.

The public names are loaded on first use, so that a program pays only for what it touches.
"""

from elea import pure

pure.install()  # first: it decides which build of the hot modules every later import gets

# Where each public name is defined. A name stands here and in the imports for type checkers below;
# tests/meta/test_exports.py holds the two equal.
_HOMES = {
    "elea.errors": """
        ClosedError ConfigError CorruptLogError DecodeError EleaError KeyExprError LimitError
        LinkError LocalProtocolError LocatorError MissingDependencyError ProtocolError
        RemoteProtocolError SelectorError StoreError ZError
    """,
    "elea.limits": "Limits",
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)

# `typing` would cost every `import elea` some milliseconds; type checkers know this idiom.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from elea.errors import ClosedError as ClosedError
    from elea.errors import ConfigError as ConfigError
    from elea.errors import CorruptLogError as CorruptLogError
    from elea.errors import DecodeError as DecodeError
    from elea.errors import EleaError as EleaError
    from elea.errors import KeyExprError as KeyExprError
    from elea.errors import LimitError as LimitError
    from elea.errors import LinkError as LinkError
    from elea.errors import LocalProtocolError as LocalProtocolError
    from elea.errors import LocatorError as LocatorError
    from elea.errors import MissingDependencyError as MissingDependencyError
    from elea.errors import ProtocolError as ProtocolError
    from elea.errors import RemoteProtocolError as RemoteProtocolError
    from elea.errors import SelectorError as SelectorError
    from elea.errors import StoreError as StoreError
    from elea.errors import ZError as ZError
    from elea.limits import Limits as Limits

    __version__: str
else:

    def __getattr__(name):
        from importlib import import_module

        if name == "__version__":
            value = import_module("elea.version").VERSION
        elif name in _HOME_OF:
            value = getattr(import_module(_HOME_OF[name]), name)
        else:
            raise AttributeError(f"module 'elea' has no attribute {name!r}")
        globals()[name] = value  # the next access costs nothing
        return value

    def __dir__():
        return sorted({*globals(), *__all__, "__version__"})
