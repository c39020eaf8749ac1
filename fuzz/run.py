"""Run a fuzz target, and hold every input to the same bounds.

    python fuzz/run.py batch                       the long run
    python fuzz/run.py batch --runs 5000           a short one
    python fuzz/run.py all                         the long run of every target
    python fuzz/run.py batch --replay FILE         one input again, as it was found

A target is a file `fuzz_<name>.py` beside this one with `one_input(data: bytes) -> None`, which
lets nothing escape, `SEEDS: list[bytes]` and, if it needs another one, `MEMORY_ALLOWANCE: int`. For
each input: no exception, at most 100 ms, at peak at most 8 bytes of memory per byte of input plus
the allowance. A breach of time or memory counts only if it repeats, because the machine is shared
and the first input to reach a branch also fills Python's caches.

Inputs come from atheris, guided by the coverage of the interpreted sources, or, where atheris has
no wheel, from seeded mutations of the seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

FUZZ_DIR: Final = Path(__file__).resolve().parent
FINDINGS_DIR: Final = FUZZ_DIR / "findings"

INPUT_SECONDS_MAX: Final = 0.1
MEMORY_PER_INPUT_BYTE_MAX: Final = 8
MEMORY_ALLOWANCE: Final = 16 * 1024
HANG_SECONDS: Final = 20.0
REPEATS: Final = 3
SHORT_RUNS: Final = 2_000
LONG_RUNS: Final = {"batch": 1_000_000, "xrce": 1_000_000}
LONG_RUNS_DEFAULT: Final = 200_000
INPUT_LEN_MAX: Final = 4_096  # or the longest seed
PROGRESS_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Target:
    """One decoder under fire."""

    name: str
    one_input: Callable[[bytes], None]
    seeds: list[bytes]
    memory_allowance: int = MEMORY_ALLOWANCE
    short_runs: int = SHORT_RUNS  # inputs of the run that `make test` does

    @property
    def input_len_max(self) -> int:
        return max([INPUT_LEN_MAX, *map(len, self.seeds)])


class Finding(Exception):  # noqa: N818 - a result, not an error of the runner
    """An input that breaks a rule."""

    def __init__(self, reason: str, data: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = data


def target_names() -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in FUZZ_DIR.glob("fuzz_*.py"))


def load_target(name: str) -> Target:
    """Load a target by its name, or by the path of its file."""
    path = Path(name) if name.endswith(".py") else FUZZ_DIR / f"fuzz_{name}.py"
    if not path.exists():
        raise SystemExit(f"no fuzz target {name!r}; there are: {', '.join(target_names())}")
    if str(FUZZ_DIR.parent) not in sys.path:  # a target may use the disks of `chaos`
        sys.path.append(str(FUZZ_DIR.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickling look there
    spec.loader.exec_module(module)
    return Target(
        path.stem.removeprefix("fuzz_"),
        module.one_input,
        module.SEEDS,
        getattr(module, "MEMORY_ALLOWANCE", MEMORY_ALLOWANCE),
        getattr(module, "SHORT_RUNS", SHORT_RUNS),
    )


@dataclass
class Checker:
    """Runs inputs through a target, keeps the worst figures, raises `Finding` on a breach."""

    target: Target
    engine: str
    memory: bool = True
    clock: Callable[[], float] = time.perf_counter
    runs: int = 0
    slowest_s: float = 0.0
    memory_ratio: float = 0.0  # peak over what was allowed; 1 is the bound
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    def check(self, data: bytes) -> None:
        self.runs += 1
        seconds, peak = self._measure(data, memory=self.memory)
        if seconds > INPUT_SECONDS_MAX:  # again, without the cost of tracing memory
            repeats = (self._measure(data, memory=False)[0] for _ in range(REPEATS))
            seconds = min(seconds, *repeats)
        allowed = MEMORY_PER_INPUT_BYTE_MAX * len(data) + self.target.memory_allowance
        if peak > allowed:
            repeats = (self._measure(data, memory=True)[1] for _ in range(REPEATS))
            peak = min(peak, *map(int, repeats))
        self.slowest_s = max(self.slowest_s, seconds)
        self.memory_ratio = max(self.memory_ratio, peak / allowed)
        if seconds > INPUT_SECONDS_MAX:
            limit_ms = INPUT_SECONDS_MAX * 1000
            raise Finding(f"took {seconds * 1000:.0f} ms, allowed are {limit_ms:.0f}", data)
        if peak > allowed:
            raise Finding(f"peak memory {peak} bytes, {len(data)} of input allow {allowed}", data)

    def summary(self) -> str:
        """One JSON object, on one line."""
        seconds = time.monotonic() - self.started
        return json.dumps(
            {
                "target": self.target.name,
                "engine": self.engine,
                "runs": self.runs,
                "seconds": round(seconds, 1),
                "runs_per_s": round(self.runs / max(seconds, 1e-9)),
                "slowest_ms": round(self.slowest_s * 1000, 2),
                "memory_ratio": round(self.memory_ratio, 3) if self.memory else None,
            }
        )

    def _measure(self, data: bytes, *, memory: bool) -> tuple[float, int]:
        """Seconds and peak bytes of one input; 0 bytes if memory is not measured."""
        tracing = tracemalloc.is_tracing()
        if memory and not tracing:
            tracemalloc.start()
        elif tracing and not memory:
            tracemalloc.stop()
        before = 0
        if memory:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
        start = self.clock()
        try:
            self.target.one_input(data)
        except Exception as error:
            trace = "".join(traceback.format_exception(error, limit=-4))
            raise Finding(f"{type(error).__name__} escaped: {error}\n{trace}", data) from error
        seconds = self.clock() - start
        peak = tracemalloc.get_traced_memory()[1] - before if memory else 0
        return seconds, peak


def mutations(target: Target, runs: int, seed: int) -> Iterator[bytes]:
    """`runs` inputs: the seeds, then mutations of them; the same for the same seed."""
    rng = random.Random(seed)
    seeds = target.seeds or [b""]
    yield from seeds[:runs]
    for _ in range(runs - len(seeds)):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            _mutate(data, rng, seeds)
        yield bytes(data[: target.input_len_max])


def _mutate(data: bytearray, rng: random.Random, seeds: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    until = min(len(data), at + rng.choice((1, 1, 2, 4, 16)))
    match rng.randrange(8):
        case 0:  # flip one bit
            if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
        case 1:  # an interesting octet: ends of ranges, continuation bits, wildcards
            data[at : at + 1] = rng.choice((b"\0", b"\x01", b"\x7f", b"\x80", b"\xff", b"*", b"/"))
        case 2:  # a number that is far too large
            data[at:at] = b"\xff" * rng.choice((1, 2, 4, 8, 9, 10))
        case 3:
            del data[at:until]
        case 4:
            del data[at:]
        case 5:  # the same again, and again
            data[at:at] = data[at:until] * rng.choice((1, 2, 16, 128))
        case 6:  # the end of another seed
            other = rng.choice(seeds)
            data[at:] = other[rng.randrange(len(other) + 1) :]
        case _:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 8, 32)))


def run_mutations(checker: Checker, runs: int, seconds: float | None, seed: int) -> None:
    """The engine without atheris. An input that never ends is interrupted and is a finding."""
    current = b""

    def hang(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise Finding(f"did not end within {HANG_SECONDS:.0f} s", current)

    previous = signal.signal(signal.SIGALRM, hang)
    progress = Progress(checker, runs)
    try:
        for current in mutations(checker.target, runs, seed):
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
            checker.check(current)
            if progress.is_over(seconds):
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        tracemalloc.stop()


class Progress:
    """A line every few seconds, so that a long run is seen to live."""

    def __init__(self, checker: Checker, runs: int) -> None:
        self.checker = checker
        self.runs = runs
        self.next_line = checker.started + PROGRESS_SECONDS

    def is_over(self, seconds: float | None) -> bool:
        now = time.monotonic()
        if now >= self.next_line:
            self.next_line = now + PROGRESS_SECONDS
            share = self.checker.runs / self.runs
            print(
                f"    {self.checker.target.name}: {share:4.0%} {self.checker.summary()}", flush=True
            )
        return seconds is not None and now - self.checker.started >= seconds


def run_atheris(name: str, args: argparse.Namespace, runs: int) -> NoReturn:
    """The coverage-guided engine. libFuzzer never returns, so the end is reached from inside."""
    import atheris

    silent = contextlib.redirect_stderr(io.StringIO())  # it names every module it instruments
    with silent, atheris.instrument_imports(include=["elea"]):
        target = load_target(name)
    checker = Checker(target, "atheris", memory=args.memory)
    progress = Progress(checker, runs)
    corpus = Path(tempfile.mkdtemp(prefix="elea-fuzz-"))
    for index, data in enumerate(target.seeds):
        (corpus / f"seed-{index:05d}").write_bytes(data)

    def finish(code: int) -> NoReturn:
        shutil.rmtree(corpus, ignore_errors=True)
        sys.stdout.flush()
        os._exit(code)

    def one(data: bytes) -> None:
        try:
            checker.check(data)
        except Finding as finding:
            report(target, finding)
            finish(1)
        if checker.runs >= runs or progress.is_over(args.seconds):
            print(checker.summary())
            finish(0)

    FINDINGS_DIR.mkdir(exist_ok=True)
    options: dict[str, str | int] = {
        "max_len": target.input_len_max,
        "seed": args.seed,
        "timeout": int(HANG_SECONDS),
        "artifact_prefix": f"{FINDINGS_DIR}/{target.name}-",
        "verbosity": 0,
    }
    dictionary = FUZZ_DIR / "seeds" / f"{target.name}.dict"  # tokens, where a target has some
    if dictionary.exists():
        options["dict"] = str(dictionary)
    flags = [f"-{key}={value}" for key, value in options.items()]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], one)
    atheris.Fuzz()
    raise AssertionError("libFuzzer returned")


def report(target: Target, finding: Finding) -> None:
    """Keep the input and say how to see it again."""
    FINDINGS_DIR.mkdir(exist_ok=True)
    digest = hashlib.sha256(finding.data).hexdigest()[:16]
    path = FINDINGS_DIR / f"{target.name}-{digest}.bin"
    path.write_bytes(finding.data)
    print(f"FOUND in {target.name}: {finding.reason}")
    print(f"input: {path} ({len(finding.data)} bytes)")
    print(f"again: python fuzz/run.py {target.name} --replay {path}", flush=True)


def run_one(args: argparse.Namespace) -> int:
    """One target, in this process."""
    runs = args.runs or (sys.maxsize if args.seconds else LONG_RUNS.get(args.target))
    runs = runs or LONG_RUNS_DEFAULT
    with_atheris = importlib.util.find_spec("atheris") is not None and args.engine != "mutation"
    if not args.replay and with_atheris:
        run_atheris(args.target, args, runs)
    if args.engine == "atheris":
        raise SystemExit("atheris is not installed (it has no wheel for some platforms)")
    target = load_target(args.target)
    checker = Checker(target, "replay" if args.replay else "mutation", memory=args.memory)
    try:
        if args.replay:
            checker.check(Path(args.replay).read_bytes())
        else:
            if args.engine == "auto":
                print("atheris is not installed: mutating the seeds, without coverage")
            run_mutations(checker, runs, args.seconds, args.seed)
    except Finding as finding:
        report(target, finding)
        return 1
    print(checker.summary())
    return 0


def run_all(rest: list[str]) -> int:
    """Every target, each in its own process; the run goes on after a finding."""
    failed = []
    for name in target_names():
        print(f"==> fuzz {name}", flush=True)
        done = subprocess.run([sys.executable, __file__, name, *rest], check=False)
        failed += [name] if done.returncode else []
    print(f"==> findings in: {', '.join(failed)}" if failed else "==> no findings")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", help=f"all, or one of: {' '.join(target_names())}")
    parser.add_argument("--runs", type=int, help="inputs; the long run if not given")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices (default: 1)")
    parser.add_argument("--engine", choices=("auto", "atheris", "mutation"), default="auto")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--replay", metavar="FILE", help="check this one input")
    args = parser.parse_args()
    # Before elea is imported: coverage is counted in Python code only.
    os.environ["ELEA_PURE"] = "1"
    if args.target == "all":
        return run_all(sys.argv[2:])
    return run_one(args)


if __name__ == "__main__":
    sys.exit(main())
