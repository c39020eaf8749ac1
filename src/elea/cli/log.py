"""`elea log`: what is in a log, whether it is whole, repair, and files of other formats."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli import log_files
from elea.cli.connection import note
from elea.cli.exit_codes import DONE, FAILED, reading_arguments
from elea.cli.output import Json, escape, is_full, json_line, octets_json
from elea.errors import EleaError, MissingDependencyError

if TYPE_CHECKING:
    from elea.store.log.verify import Findings

NAME: Final = "log"
SUMMARY: Final = "list, print, check, repair, pack, export and import durable logs"

_EPILOG: Final = """\
exit status:
  0  done; with verify, the log is whole
  1  with verify and pack, the log is damaged; with ls and cat, there is no such
     row; with any, the log cannot be read
  2  wrong usage

examples:
  elea log stat /var/lib/elea/fleet
  elea log cat /var/lib/elea/fleet --key 'fleet/*/pose' --limit 10 --json
  elea log verify /var/lib/elea/fleet
  elea log pack /var/lib/elea/fleet
"""
_PAYLOAD_SHOWN: Final = 200  # octets of a payload in a line for people


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)

    def add(
        name: str,
        summary: str,
        run: Callable[[argparse.Namespace], int],
        epilog: str = _EPILOG,
    ) -> argparse.ArgumentParser:
        verb = verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.set_defaults(log_verb=run)
        if run is not log_files.run_import:
            verb.add_argument(
                "directory", metavar="DIR", type=Path, help="the directory of the log"
            )
            verb.add_argument("--json", action="store_true", help="print one JSON object per line")
        return verb

    listing = add("ls", "list the keys, and how many rows each has", _ls)
    listing.add_argument("--key", default="**", metavar="KEYEXPR", help="keys that match this only")
    add("stat", "tell shards, segments, rows, octets, times and consumers", _stat)
    for name, summary, run in (
        ("verify", "look at every octet, and tell what is damaged", _verify),
        ("repair", "put aside what is damaged, and make indexes again", _repair),
    ):
        verb = add(name, summary, run)
        verb.add_argument("--quiet", action="store_true", help="no progress on standard error")
    packing = add("pack", "write all of a log once more, in few large compressed blocks", _pack)
    packing.add_argument(
        "--compression", choices=("zstd", "lz4"), default="zstd", help="(default: zstd)"
    )
    packing.add_argument("--quiet", action="store_true", help="no progress on standard error")
    cat = add("cat", "print rows", _cat)
    cat.add_argument("--key", default="**", metavar="KEYEXPR", help="rows of keys that match this")
    cat.add_argument("--shard", type=int, help="rows of this shard only")
    cat.add_argument("--from", dest="first", type=int, default=None, help="from this number on")
    cat.add_argument("--limit", type=int, default=None, metavar="N", help="at most so many rows")
    summary = "write rows as Parquet, CSV, JSON lines or MCAP"
    log_files.configure_export(
        add("export", summary, log_files.run_export, log_files.EXPORT_EPILOG)
    )
    summary = "make a log of a Parquet, JSON lines or MCAP file"
    log_files.configure_import(
        add("import", summary, log_files.run_import, log_files.IMPORT_EPILOG)
    )


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    # Modules of the log are imported by the verbs: the command works without the extra.
    try:
        status: int = args.log_verb(args)
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea log", "arrow") from error
    except BrokenPipeError:
        raise  # who reads our output has seen enough
    except OSError as error:
        if error.filename is None and is_full(sys.stdout):
            raise  # not the log is full
        where = error.filename or args.directory
        raise EleaError(f"{where}: {error.strerror or error}") from error
    return status


def _ls(args: argparse.Namespace) -> int:
    from elea.store.log.reader import LogReader

    key_expr = _key_expr(args)
    keys = LogReader(args.directory, log_files.tell_damage).keys(key_expr)
    for key, rows_count in sorted(keys.items()):
        if args.json:
            print(json_line({"key": key, "rows": rows_count}))
        else:
            print(f"{rows_count:>12}  {escape(key)}")
    return DONE if keys else _nothing(args)


def _stat(args: argparse.Namespace) -> int:
    from elea.store.log.consumers import load
    from elea.store.log.disk import RealDisk
    from elea.store.log.reader import LogReader

    reader = LogReader(args.directory)
    found = load(RealDisk(args.directory, writable=False), reader.log_id)
    shards: list[Json] = []
    for shard in range(reader.shards_count):
        stat = reader.stat(shard)
        shards.append(
            {
                "shard": shard,
                "first": stat.first,
                "end": stat.end,
                "segments": stat.segments_count,
                "blocks": stat.blocks_count,
                "octets": stat.octets_count,
                "from": _time(stat.time_min),
                "to": _time(stat.time_max),
            }
        )
    consumers: list[Json] = [
        {
            "consumer": one.name,
            "offsets": {str(shard): seq for shard, seq in one.offsets.items()},
            "committed": _moment(one.committed_ns),
            "lease_until": _moment(one.lease_until_ns),
        }
        for one in found.consumers
    ]
    if args.json:
        print(json_line({"log": str(reader.log_id), "shards": shards, "consumers": consumers}))
        return 0
    print(f"log {reader.log_id}")
    for kind, entries in (("shard", shards), ("consumer", consumers)):
        for entry in entries:
            assert isinstance(entry, dict)
            name, rest = entry[kind], {key: entry[key] for key in entry if key != kind}
            told = ", ".join(f"{key} {value}" for key, value in rest.items())
            print(escape(f"  {kind} {name}: {told}"))
    for file in found.unreadable:
        print(escape(f"  consumers/{file} cannot be read"))
    return 0


def _verify(args: argparse.Namespace) -> int:
    from elea.store.log.disk import RealDisk
    from elea.store.log.verify import verify

    found = verify(RealDisk(args.directory, writable=False), _progress(args))
    _show(args, found)
    return 1 if found.damage else 0


def _repair(args: argparse.Namespace) -> int:
    from elea.store.log.disk import RealDisk
    from elea.store.log.verify import repair

    if not args.directory.is_dir():
        raise EleaError(f"{args.directory} is not the directory of a log")
    found = repair(RealDisk(args.directory, writable=True), _progress(args))
    _show(args, found)
    return 0


def _pack(args: argparse.Namespace) -> int:
    from elea.store.log.disk import RealDisk
    from elea.store.log.log import pack_log

    if not args.directory.is_dir():
        raise EleaError(f"{args.directory} is not the directory of a log")
    disk = RealDisk(args.directory, writable=True)
    found = pack_log(disk, args.compression, _progress(args))
    if args.json:
        left: list[Json] = list(found.left)
        told: dict[str, Json] = {"octets_before": found.before_len, "octets": found.after_len}
        print(json_line({**told, "left": left}))
        return 1 if left else 0
    for stem in found.left:
        print(f"{stem}: damaged, it stays as it is")
    print(f"{found.before_len} octets before, {found.after_len} now")
    return 1 if found.left else 0


def _show(args: argparse.Namespace, found: Findings) -> None:
    if args.json:
        damage: list[Json] = [
            {
                "file": one.segment,
                "offset": one.offset,
                "reason": one.reason,
                "first": one.first_seq,
                "end": one.end_seq,
            }
            for one in found.damage
        ]
        record: dict[str, Json] = {
            "rows": found.rows_count,
            "blocks": found.blocks_count,
            "octets": found.octets_count,
            "unfinished": found.unfinished_len,
            "lost": found.lost_count,
            "damage": damage,
            "repaired": found.repaired,
        }
        print(json_line(record))
        return
    for line in (*map(str, found.damage), *found.repaired):
        print(escape(line))
    word = "whole" if not found.damage else f"damaged, {found.lost_count} rows lost"
    size = f"{found.blocks_count} blocks, {found.octets_count} octets"
    print(f"{found.rows_count} rows in {size}: {word}")


def _cat(args: argparse.Namespace) -> int:
    from elea.store.log.reader import LogReader

    key_expr = _key_expr(args)
    reader = LogReader(args.directory, log_files.tell_damage)
    left: int | None = args.limit
    printed = False
    shards = range(reader.shards_count) if args.shard is None else [args.shard]
    if args.shard is not None and not 0 <= args.shard < reader.shards_count:
        raise EleaError(f"saw shard {args.shard}; legal are 0 to {reader.shards_count - 1}")
    for shard in shards:
        first = reader.bounds(shard).first if args.first is None else args.first
        for batch in reader.read(shard, first, position=True, key_expr=key_expr):
            for row in batch.to_pylist():
                if left is not None:
                    if left <= 0:
                        return 0
                    left -= 1
                _print_row(row, as_json=args.json)
                printed = True
    return DONE if printed else _nothing(args)


def _key_expr(args: argparse.Namespace) -> str:
    from elea.keyexpr.keyexpr import KeyExpr

    with reading_arguments():
        return str(KeyExpr(args.key))


def _nothing(args: argparse.Namespace) -> int:
    """Say that no row was found, and of which keys."""
    is_part = any(getattr(args, name, None) is not None for name in ("shard", "first", "limit"))
    such = " such" if is_part else ""
    of = f" of keys that match {args.key}; `elea log ls` lists all keys" if args.key != "**" else ""
    note(f"{args.directory} has no{such} rows{of}")
    return FAILED


def _print_row(row: dict[str, object], *, as_json: bool) -> None:
    payload = row["payload"]
    assert isinstance(payload, bytes)
    if as_json:
        record: dict[str, Json] = {}
        for name, value in row.items():
            if isinstance(value, bytes):
                record.update(octets_json(name, value))
            elif isinstance(value, datetime):
                record[name] = value.isoformat()
            elif value is None or isinstance(value, int | str):
                record[name] = value
        print(json_line(record))
        return
    text = payload[:_PAYLOAD_SHOWN].decode("utf-8", "backslashreplace")
    print(escape(f"{row['shard']}/{row['seq']} {row['ts'] or row['recv_ts']} {row['key']}: {text}"))


def _progress(args: argparse.Namespace) -> Callable[[str, int, int], None] | None:
    if args.quiet or not sys.stderr.isatty():
        return None

    def show(segment: str, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        print(f"\r{percent:>3} %  {segment}", end="", file=sys.stderr, flush=True)
        if done >= total:
            print(file=sys.stderr)

    return show


def _time(time: int | None) -> str | None:
    """The 64 bits of a timestamp, for people."""
    return None if time is None else _moment((time >> 32) * 1_000_000_000)


def _moment(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")
