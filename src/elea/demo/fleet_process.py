"""FleetProcess: the fleet, as who started it sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from elea.demo.fleet import NO_DOMAIN
from elea.demo.plan import Plan

OUTPUT: Final = "fleet.log"
_LEAVE_S: Final = 120.0  # to have stored what still waits


@dataclass(frozen=True, slots=True)
class Said:
    """What the fleet said last."""

    sent: int = 0
    stored: int = 0
    refused: int = 0
    late_ms: int = 0
    done: bool = False


class FleetProcess:
    """A fleet in a process of its own, so that its rates hold whatever else is done here.

    Args:
        plan: What it does.
        endpoint: Where it connects to.
        gateway: Where its tiny devices do.
        directory: Of its ledger and what it says beside that.
        domain: The DDS domain, if the plan has a DDS robot.
    """

    def __init__(
        self, plan: Plan, endpoint: str, gateway: str, directory: Path, domain: int | None = None
    ) -> None:
        self.output = directory / OUTPUT
        self.said = Said()
        number = NO_DOMAIN if domain is None else str(domain)
        arguments = (endpoint, gateway, number, str(directory), json.dumps(asdict(plan)))
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  # ourselves, no shell
                [sys.executable, "-m", "elea.demo.fleet", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said = Said(**json.loads(line))

    @property
    def is_over(self) -> bool:
        """Whether it publishes no more: it is done, or it fell."""
        return self.said.done or self._process.poll() is not None

    @property
    def has_fallen(self) -> bool:
        """Whether it is gone, and was not told to leave."""
        return self._process.poll() not in (None, 0)

    def end(self) -> None:
        """Publish no more; robots stay until `leave`."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone already
            self._process.stdin.write(b"end\n")
            self._process.stdin.flush()

    def leave(self, timeout_s: float = _LEAVE_S) -> bool:
        """All robots go; whether they did so in time. Those that did not are killed."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        self._listening.join(timeout_s)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code == 0
