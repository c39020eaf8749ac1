"""`elea ros2 record` and `elea ros2 replay`: fleets into logs, and logs into fleets."""

from __future__ import annotations

import argparse
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Final

from elea.cli.exit_codes import UsageError, reading_arguments
from elea.cli.main import main
from elea.cli.payloads import count, seconds
from elea.cli.progress import Span
from elea.cli.ros2_connection import add_fleet_options, fleet_node, named, tell
from elea.errors import MissingDependencyError

_POLL_S: Final = 0.1


def configure_record(parser: argparse.ArgumentParser) -> None:
    """Add the options of `elea ros2 record`."""
    parser.set_defaults(noun_run=run_record)
    parser.add_argument(
        "topic", metavar="TOPIC", nargs="*", help="names, or patterns such as /robot1/*"
    )
    parser.add_argument("-a", "--all", action="store_true", help="all topics")
    parser.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="DIR",
        help="the directory of the log, or a file that ends in .mcap",
    )
    parser.add_argument(
        "--hidden", action="store_true", help="be no subscription that others see; may miss images"
    )
    parser.add_argument("--count", type=count, metavar="N", help="end after N samples")
    parser.add_argument("--duration", type=seconds, metavar="S", help="end after S seconds")
    add_fleet_options(parser)


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Add the options of `elea ros2 replay`."""
    parser.set_defaults(noun_run=run_replay)
    parser.add_argument("directory", metavar="DIR", type=Path, help="the log")
    parser.add_argument("--topics", nargs="+", default=[], metavar="TOPIC", help="these alone")
    parser.add_argument("--speed", type=float, default=1.0, help="0: as fast as possible")
    parser.add_argument(
        "--remap", action="append", default=[], metavar="/A:=/B", help="publish /A as /B"
    )
    parser.add_argument("--clock", type=float, default=0.0, metavar="HZ", help="publish /clock")
    parser.add_argument(
        "--stamps",
        choices=["keep", "now"],
        default="keep",
        help="source times and stamps of headers: as they were (default), or of now",
    )
    parser.add_argument(
        "--wait", type=seconds, default=0.0, metavar="S", help="for subscriptions (default: 0)"
    )
    parser.add_argument("--force", action="store_true", help="although another node publishes")
    add_fleet_options(parser)


def run_record(args: argparse.Namespace) -> int:
    """Record until it is enough; 1 if the time was over before."""
    if bool(args.topic) == args.all:
        raise UsageError("no topics: expected names of topics, or --all")
    try:
        from elea.ros.recording import RosRecording
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea ros2 record", "arrow") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as by Ctrl-C
    is_file = args.to.suffix == ".mcap"
    directory = args.to.with_name(args.to.name + ".recording") if is_file else args.to
    span = Span(args.count, args.duration)
    with fleet_node(args) as node:
        topics = [named(one) for one in args.topic]
        recording = RosRecording(node, directory, topics, hidden=args.hidden)
        tell(f"records {', '.join(args.topic) or 'all topics'} in {directory}")
        try:
            while not span.is_over:
                time.sleep(_POLL_S if span.left_s is None else min(_POLL_S, span.left_s))
                span.count = recording.recorder.counts().rows
        except KeyboardInterrupt:
            tell("interrupted")
        rows = recording.stop()
    tell(f"{rows} rows in {directory}")
    if is_file:
        words = ["log", "export", str(directory), "--to", str(args.to)]
        code = main([*words, "--profile", "ros2", "--quiet"])
        if code:
            return code
        shutil.rmtree(directory)
    return span.code


def run_replay(args: argparse.Namespace) -> int:
    """Publish the messages of a log again."""
    try:
        from elea.ros.replaying import ReplayOptions, RosReplay
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea ros2 replay", "arrow") from error
    remap = {}
    for text in args.remap:
        before, mark, after = text.partition(":=")
        if not mark:
            raise UsageError(f"no remap: expected /a:=/b, got {text!a}")
        remap[named(before)] = named(after)
    with reading_arguments():
        options = ReplayOptions(
            tuple(named(one) for one in args.topics),
            remap,
            args.speed,
            args.stamps,
            args.clock,
            args.wait,
            args.force,
        )
    with fleet_node(args, name="elea_replay") as node:
        replay = RosReplay(node, args.directory, options)
        published = replay.run()
    tell(f"{published} messages published, {replay.left_out} rows left out")
    return 0
