"""A plugin of pytest: a line every few seconds that says how far the run is, and in which folder.

    python -m pytest -q -p tests.progress

It takes the place of the dots. A failure is told when it happens, not at the end.
"""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

LINE_SECONDS: Final = 15.0


class Progress:
    """Counts the tests that ended, and tells."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal
        self._started = time.monotonic()
        self._next_line = self._started + LINE_SECONDS
        self._ended_count = 0
        self._total_count = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total_count = max(self._total_count, len(session.items))

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._total_count = max(self._total_count, len(ids))

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letter for what passed."""
        return ("passed", "", "") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)
        if report.when != "teardown":
            return
        self._ended_count += 1
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            self._terminal.write_line(self._line(report.nodeid, now))

    def _line(self, nodeid: str, now: float) -> str:
        minutes, seconds = divmod(int(now - self._started), 60)
        folder = PurePosixPath(nodeid.partition("::")[0]).parent
        counts = f"{self._ended_count:,} of {self._total_count:,} tests"
        return f"    {minutes}:{seconds:02} {counts}, now in {folder}"


@pytest.hookimpl(trylast=True)  # when there is a terminal
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, TerminalReporter) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal), "elea-progress")
