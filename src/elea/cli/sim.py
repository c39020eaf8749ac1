"""`elea sim`: networks of nodes in virtual time, by a seed; one line replays a failure."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.choices import SIM_LEVELS, SIM_ROUTERS, SIM_SECONDS, SIM_SHAPES
from elea.cli.output import printable

if TYPE_CHECKING:
    from elea.sim.campaign.plan import Options
    from elea.sim.campaign.run import Result

NAME: Final = "sim"
SUMMARY: Final = "run networks of nodes in virtual time, by a seed, and check what must hold"

_SEED_DEFAULT: Final = 1
_NODES_MAX: Final = 50
_PROGRESS_S: Final = 2.0
_SEEDS_ENOUGH: Final = 300  # from here on a rare event that never came is worth a word
_EPILOG: Final = """\
A seed decides everything: topology, sessions, what they do, and what is done to them. The same
seed and options give the same trace, whose hash is printed.

exit status:
  0  every law held for every seed
  1  a law was broken; each failing seed is printed as the command that replays it
  2  wrong usage
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""

    parser.description = "Run networks of nodes in virtual time, by a seed, and check their laws."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--seed", type=int, metavar="N", help=f"run this seed (default: {_SEED_DEFAULT})"
    )
    which.add_argument(
        "--seeds", type=_seeds, metavar="A:B", help="run the seeds from A up to, not including, B"
    )
    parser.add_argument(
        "--nodes", type=_nodes, metavar="K", help=f"nodes in a world, 2 to {_NODES_MAX}"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SIM_SECONDS,
        metavar="S",
        help=f"virtual time with sessions at work and faults (default: {SIM_SECONDS:g})",
    )
    parser.add_argument("--faults", choices=SIM_LEVELS, help="how much is done to the world")
    parser.add_argument(
        "--shape",
        choices=(*SIM_SHAPES, SIM_ROUTERS),
        help="who is connected to whom; routers have clients and peers below them",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per seed, on one line")
    parser.add_argument(
        "--trace", metavar="FILE", help="write what happened, one line per event; for one seed"
    )
    parser.set_defaults(sim_usage=parser.format_usage)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    from elea.sim.campaign import run as campaign
    from elea.sim.campaign.plan import Options
    from elea.sim.trace import Trace

    seed = _SEED_DEFAULT if args.seed is None else args.seed
    seeds: range = args.seeds or range(seed, seed + 1)
    if args.trace and len(seeds) != 1:
        message = "--trace is for one seed; give --seed"
        print(f"{args.sim_usage()}elea sim: error: {message}", file=sys.stderr)
        return 2
    options = Options(
        nodes_count=args.nodes, seconds=args.seconds, faults=args.faults, shape=args.shape
    )
    report = _Report(seeds, options, as_json=args.json)
    trace = Trace(None) if args.trace else None
    for seed in seeds:
        report.take(seed, campaign.run(seed, options, trace=trace))
    if trace is not None:
        text = "".join(f"{printable(line)}\n" for line in trace.lines)
        Path(args.trace).write_text(text, encoding="utf-8")
    report.sum_up()
    return 1 if report.failed else 0


def replay_line(seed: int, options: Options) -> str:
    """The command that runs a seed again."""

    line = f"elea sim --seed {seed}"
    if options.nodes_count is not None:
        line += f" --nodes {options.nodes_count}"
    if options.seconds != SIM_SECONDS:
        line += f" --seconds {options.seconds:g}"
    if options.faults is not None:
        line += f" --faults {options.faults}"
    if options.shape is not None:
        line += f" --shape {options.shape}"
    return line


class _Report:
    """Prints results as they come."""

    def __init__(self, seeds: Sequence[int], options: Options, *, as_json: bool) -> None:
        self.failed = 0
        self._seeds = seeds
        self._options = options
        self._as_json = as_json
        self._done = 0
        self._events_count = 0
        self._virtual_ns = 0
        self._reached: Counter[str] = Counter()
        self._start_s = self._said_s = time.monotonic()

    def take(self, seed: int, result: Result) -> None:
        """One seed is done."""
        self._done += 1
        self._events_count += result.events_count
        self._virtual_ns += result.virtual_ns
        self._reached.update(result.reached)
        self.failed += bool(result.violations)
        replay = replay_line(seed, self._options)
        if self._as_json:
            print(json.dumps(_record(seed, replay, result)))
        elif result.violations:
            print(replay)
            for one in result.violations:
                print(f"    {printable(one)}")
        if not self._as_json and len(self._seeds) == 1:
            print(f"{result.plan}: {result.events_count} events, trace {result.digest}")
        self._progress()

    def sum_up(self) -> None:
        """All seeds are done."""
        from elea.sim.campaign.run import SOMETIMES
        from elea.sim.world import SECOND_NS

        if self._as_json or len(self._seeds) == 1:
            return
        spent_s = max(time.monotonic() - self._start_s, 1e-9)
        print(
            f"{self._done} seeds, {self.failed} failed, {self._events_count} events,"
            f" {self._virtual_ns / SECOND_NS / 3600:.1f} h of virtual time,"
            f" {self._done / spent_s:.1f} seeds/s"
        )
        missing = [name for name in SOMETIMES if not self._reached[name]]
        if missing and self._done >= _SEEDS_ENOUGH and self._options.faults in (None, "rough"):
            print(f"never happened: {', '.join(missing)}")

    def _progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= _PROGRESS_S:
            self._said_s = now_s
            rate = self._done / (now_s - self._start_s)
            left_s = (len(self._seeds) - self._done) / rate
            print(
                f"elea sim: {self._done} of {len(self._seeds)} seeds, {self.failed} failed,"
                f" {rate:.1f} seeds/s, {left_s:.0f} s left",
                file=sys.stderr,
            )


def _record(seed: int, replay: str, result: Result) -> dict[str, object]:
    from elea.sim.world import SECOND_NS

    return {
        "seed": seed,
        "ok": not result.violations,
        "plan": str(result.plan),
        "trace": result.digest,
        "events": result.events_count,
        "virtual_s": round(result.virtual_ns / SECOND_NS, 3),
        "violations": result.violations,
        "reached": dict(sorted(result.reached.items())),
        "replay": replay,
    }


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    if not colon or not first.isdecimal() or not last.isdecimal() or int(last) <= int(first):
        raise argparse.ArgumentTypeError(f"{text!a} is no range; write A:B with A < B")
    return range(int(first), int(last))


def _nodes(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= _NODES_MAX:
        raise argparse.ArgumentTypeError(f"{text!a}: a world has 2 to {_NODES_MAX} nodes")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3_600:
        raise argparse.ArgumentTypeError(f"{text!a}: a world is worked for up to 3600 s")
    return value
