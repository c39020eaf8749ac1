"""What a historian gathers from a log, against a list of samples that was sorted and filtered."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.historian.rig import BASE_S, batch_at, sample, text

from elea.limits import Limits
from elea.parameters import Parameters
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.store.historian.gather import gather
from elea.store.historian.selection import Selection
from elea.store.historian.source import LogSource
from elea.store.log.log import Log
from elea.store.log.settings import LogSettings

Key = tuple[str, int, int]  # key, second, number


@dataclass(frozen=True)
class Entry:
    key: int
    second: int
    is_put: bool


entries = st.builds(Entry, st.integers(0, 4), st.integers(0, 12), st.booleans())
logs = st.lists(st.lists(entries, min_size=1, max_size=8), max_size=8)
questions = st.tuples(
    st.sampled_from(["k/*", "k/1", "**", "k/9"]),
    st.sampled_from(["", "at", "range"]),
    st.integers(-1, 13),
    st.integers(-1, 13),
    st.sampled_from(["asc", "desc", "time"]),
    st.sampled_from(["put", "delete", "put,delete"]),
)


def kept(directory: Path, blocks: list[list[Entry]], *, small: bool) -> list[Sample]:
    """A log of blocks, and all its samples; their numbers are where they stand."""
    found: list[Sample] = []
    settings_ = LogSettings(segment_len=1 if small else 1 << 20, shards_count=2)
    with Log(directory, settings_) as log:
        for block in blocks:
            made: list[Sample] = []
            for entry in block:
                number = len(found) + len(made)
                value = number if entry.is_put else None
                made.append(sample(f"k/{entry.key}", entry.second, value, sn=number))
            found += made
            log.store(batch_at(made, [BASE_S * 10**9] * len(made)))
    return found


def keys_of(samples: list[Sample]) -> list[Key]:
    found = []
    for one in samples:
        assert one.timestamp is not None
        assert one.source_info is not None
        second = one.timestamp.time.as_secs() - BASE_S
        found.append((one.key_text, second, one.source_info.source_sn))
    return found


def expected(samples: list[Sample], question: tuple[str, str, int, int, str, str]) -> list[Key]:
    """The same by hand. Of equal times the one that came last is the last."""
    key_expr, how, first, last, order, kinds = question
    kept_kinds = {
        "put": {SampleKind.PUT},
        "delete": {SampleKind.DELETE},
        "put,delete": {SampleKind.PUT, SampleKind.DELETE},
    }[kinds]
    all_keys = keys_of(samples)
    is_wanted = [one.kind in kept_kinds for one in samples]
    matching = [
        (key, wanted)
        for key, wanted in zip(all_keys, is_wanted, strict=True)
        if "*" in key_expr or key[0] == key_expr
    ]
    if how == "range":
        found = [key for key, wanted in matching if wanted and first <= key[1] <= last]
    else:
        best: dict[str, tuple[Key, bool]] = {}
        for key, wanted in matching:
            if (how == "at" and key[1] > first) or (key[0] in best and key[1] < best[key[0]][0][1]):
                continue
            best[key[0]] = (key, wanted)
        found = [key for key, wanted in best.values() if wanted]
    if order == "time" and how == "range":
        return sorted(found, key=lambda one: (one[1], one[0], one[2]))
    if order == "desc":
        return sorted(found, key=lambda one: (one[0], -one[1], -one[2]))
    return sorted(found)


@settings(max_examples=30, deadline=None)
@given(logs, st.booleans(), st.lists(questions, min_size=1, max_size=6), st.integers(1, 6))
def test_what_is_gathered_is_what_was_kept(
    blocks: list[list[Entry]],
    small: bool,
    asked: list[tuple[str, str, int, int, str, str]],
    rows_count: int,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        samples = kept(Path(name), blocks, small=small)
        source = LogSource(name)
        for question in asked:
            key_expr, how, first, last, order, kinds = question
            order = "asc" if order == "time" and how != "range" else order
            times = {
                "": "",
                "at": f"_at={text(first)};",
                "range": f"_time=[{text(first)}..{text(last)}];",
            }[how]
            selector = f"{times}_order={order};_kinds={kinds}"
            selection = Selection.of(key_expr, Parameters(selector), 0)
            answer = expected(samples, question)
            assert numbers(source, selection, Limits()) == [one[2] for one in answer]
            # In pieces, too, unless more happened at once than fit.
            limits = replace(Limits(), historian_rows_count=rows_count)
            pieces = in_pieces(source, selection, limits)
            if how != "range" or most_at_once(answer, order) <= rows_count:
                assert pieces == [one[2] for one in answer]


def most_at_once(answer: list[Key], order: str) -> int:
    """How many rows a cut cannot tell apart."""
    moments = Counter(one[1] if order == "time" else one[:2] for one in answer)
    return max(moments.values(), default=0)


def numbers(source: LogSource, selection: Selection, limits: Limits) -> list[int]:
    found = gather([source], selection, limits=limits)
    assert found.cut is None
    return [row.source_info.source_sn for row in found if row.source_info is not None]


def in_pieces(source: LogSource, selection: Selection, limits: Limits) -> list[int]:
    """All answers, as they say that they go on."""
    found: list[int] = []
    left = [selection]
    for _ in range(1_000):
        if not left:
            return found
        part = gather([source], left.pop(0), limits=limits)
        found += [row.source_info.source_sn for row in part if row.source_info is not None]
        if part.cut is not None:
            following = []
            for one in part.cut.following:
                key_expr, _, parameters = one.partition("?")
                following.append(Selection.of(key_expr, Parameters(parameters), 0))
            left = following + left
    raise AssertionError("it has no end")
