"""What every test shares: Hypothesis profiles, which build is under test, and that
no multicast leaves this host.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings
from tests import loopback
from tests.scale import IS_LONG, scaled
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from elea import pure, version

# `ci` draws the same examples on every run, so that a red run is about the change and nothing else;
# `nightly` looks for new ones: HYPOTHESIS_PROFILE=nightly.
settings.register_profile(
    "ci",
    max_examples=scaled(25, 1_000),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(  # for the second build of the same sources
    "again", settings.get_profile("ci"), max_examples=scaled(10, 1_000)
)
settings.register_profile("nightly", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--build",
        choices=("compiled", "interpreted", "any"),
        default=os.environ.get("ELEA_EXPECT_BUILD", "any"),
        help="the build these tests are meant for; refuse to run on another",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Import every compiled module and refuse to test anything but the build that was asked for."""
    loopback.install()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # and for what tests start
    expected = str(config.getoption("--build"))
    if expected not in ("compiled", "interpreted", "any"):
        raise pytest.UsageError(f"ELEA_EXPECT_BUILD={expected}: compiled, interpreted or any")
    for name in pure.compiled_modules():
        importlib.import_module(name)
        actual = "compiled" if pure.is_compiled(name) else "interpreted"
        if expected not in (actual, "any"):
            raise pytest.UsageError(
                f"{name} is {actual}, but these tests are for --build {expected}"
            )
    if expected == "compiled" and not pure.compiled_modules():
        raise pytest.UsageError("--build compiled: there are no compiled modules")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives until the end: the garbage collector need not look at it, ever."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


# Folders with files that take long, in the order in which they are begun with.
_FIRST_FOLDERS = ("spark", "attack", "newcomer", "browser", "sim")
_WAITING_FOLDERS = ("interop", "dds", "link", "ui")  # their tests wait for others most of the time


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to other targets of `make` what is theirs; run the others in a good order."""
    if not IS_LONG and not config.getoption("keyword"):
        others = {"long", "packages"} - {str(config.getoption("markexpr"))}
        left = {item for item in items if any(item.get_closest_marker(name) for name in others)}
        if left:
            config.hook.pytest_deselected(items=list(left))
            items[:] = [item for item in items if item not in left]
    if hasattr(config, "workerinput"):
        paths = _ordered([*dict.fromkeys(item.path for item in items)])
        positions = {path: position for position, path in enumerate(paths)}
        items.sort(key=lambda item: positions[item.path])


def _ordered(paths: list[Path]) -> list[Path]:
    """Put what takes long first; then files that wait beside files that compute: no core idles."""
    first = [path for name in _FIRST_FOLDERS for path in paths if path.parent.name == name]
    rest = [path for path in paths if path.parent.name not in _FIRST_FOLDERS]
    waiting = [path for path in rest if path.parent.name in _WAITING_FOLDERS]
    computing = [path for path in rest if path.parent.name not in _WAITING_FOLDERS]
    pairs = zip_longest(waiting, computing)
    return [*first, *(path for pair in pairs for path in pair if path is not None)]


_OWN_SPARK = (  # their programs start one of their own, one after the other
    *("test_cluster.py", "test_one_sample.py", "test_pipeline_process.py", "test_two_domains.py"),
)


class _Together(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Which tests run in the same process: those of a file, and more where they share something."""

    def _split_scope(self, nodeid: str) -> str:
        path = PurePosixPath(nodeid.partition("::")[0])
        if path.parent == PurePosixPath("tests/spark"):
            return "own sparks" if path.name in _OWN_SPARK else "spark"  # which is started once
        # Nodes that look for each other would find those of other tests.
        return "scouting" if "scout" in path.name or "discover" in path.name else str(path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _Together(config, log)


def pytest_report_header() -> str:
    return f"elea {version.VERSION}, wire version {version.WIRE_VERSION}, {_build()}"


@pytest.fixture(autouse=True)
def _no_multicast_leaves_this_host() -> Iterator[None]:
    """A leak that some thread kept to itself fails the test that runs."""
    loopback.LEAKS.clear()
    yield
    assert loopback.LEAKS == []


@pytest.fixture(autouse=True)
def _the_process_is_left_as_it_was() -> Iterator[None]:
    """A test that leaves a log level, a variable or a directory changed fails, not a later one."""
    before = _process_state()
    yield
    changed = {
        name: (before[name], value)
        for name, value in _process_state().items()
        if before.get(name, value) != value
    }
    assert changed == {}


def _process_state() -> dict[str, object]:
    """Return what tests of one process share: loggers, environment, current directory."""
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("PYTEST_")}
    state: dict[str, object] = {"directory": os.getcwd(), "environment": environment}
    for name, logger in logging.Logger.manager.loggerDict.items():
        if name.startswith("elea") and isinstance(logger, logging.Logger):
            state[name] = (logger.level, logger.disabled, logger.propagate, len(logger.handlers))
    return state


@pytest.fixture(scope="session")
def build() -> str:
    """The build under test: `compiled` or `interpreted`."""
    return _build()


def _build() -> str:
    return "compiled" if version.COMPILED else "interpreted"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; those of `tmp_path` are the user's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
