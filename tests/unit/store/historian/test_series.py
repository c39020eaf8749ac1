"""A plot asks for numbers over time, and gets one answer instead of a reply for each version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.historian.rig import ALONE, historian, refusal, sample, text, written

import elea
from elea.limits import Limits
from elea.sample import Sample
from elea.store.historian.series import ENCODING
from elea.store.historian.source import LogSource

RANGE = f"_time=[{text(0)}..{text(600)}]"


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


def ten_per_second(count: int, *missing: int) -> list[Sample]:
    return [
        sample("f/a", n / 10, {"temp": n % 50, "n": n, "name": "a"}, sn=n)
        for n in range(count)
        if n not in missing
    ]


def asked(session: elea.Session, selector: str) -> list[Any]:
    found = []
    for reply in session.get(selector):
        assert reply.ok is not None
        assert reply.ok.encoding == ENCODING
        assert str(reply.ok.key_expr) == selector.partition("?")[0]
        found.append(json.loads(reply.ok.payload.to_bytes()))
    return found


def test_ten_minutes_are_one_answer_that_fits_a_screen(
    session: elea.Session, tmp_path: Path
) -> None:
    directory = written(tmp_path / "log", ten_per_second(6_000, *range(100, 116)))
    with historian(session, directory):
        [part] = asked(session, f"f/a?{RANGE};_series=temp,n;_columns=100")
        assert part["rows"] == 5_984
        assert part["fields"] == ["temp", "n"]
        assert [*part["series"]] == ["temp", "n"]
        for times, values in part["series"].values():
            assert len(times) == len(values) <= 4 * 101 + 2
        assert max(v for v in part["series"]["n"][1] if v is not None) == 5_999
        assert sum(count for _, _, count in part["lost"]) == 16
        assert (part["cut"], part["thin"]) == (False, 1)
        [usual] = asked(session, f"f/a?{RANGE};_series=*")
        assert [*usual["series"]] == ["temp", "n"]
        assert asked(session, f"f/b?{RANGE};_series=temp") == []


def test_two_sources_of_the_same_rows_tell_them_once(session: elea.Session, tmp_path: Path) -> None:
    directory = written(tmp_path / "log", ten_per_second(50))
    with historian(session, LogSource(directory), LogSource(directory)):
        [part] = asked(session, f"f/a?{RANGE};_series=n")
        assert (part["rows"], part["lost"]) == (50, [])


def test_of_more_than_fits_the_newest_are_told(session: elea.Session, tmp_path: Path) -> None:
    samples = ten_per_second(100)
    directory = written(tmp_path / "log", *[samples[n : n + 10] for n in range(0, 100, 10)])
    with historian(session, directory, limits=Limits(historian_rows_count=20)):
        [part] = asked(session, f"f/a?{RANGE};_series=n")
        values = [one for one in part["series"]["n"][1] if one is not None]
        assert (part["rows"], part["cut"], min(values), max(values)) == (20, True, 80, 99)


def test_of_many_one_in_n_is_decoded_and_all_losses_are_counted(
    session: elea.Session, tmp_path: Path
) -> None:
    directory = written(tmp_path / "log", ten_per_second(100, 50))
    with historian(session, directory, limits=Limits(series_decoded_count=20)):
        [part] = asked(session, f"f/a?{RANGE};_series=n")
        assert (part["rows"], part["thin"]) == (99, 5)
        assert len([one for one in part["series"]["n"][1] if one is not None]) == 20
        assert [count for _, _, count in part["lost"]] == [1]


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (f"f/*?{RANGE};_series=n", "no wildcard"),
        ("f/a?_series=n", "give _time"),
        (f"f/a?{RANGE};_series=a,b,c,d,e", "at most 4 fields"),
        (f"f/a?{RANGE};_series=n;_columns=0", "from 1 to 4096"),
        (f"f/a?{RANGE};_series=n;_columns=99999", "from 1 to 4096"),
        (f"f/a?{RANGE};_series=n;_filter=n > 1", "neither _filter nor _project"),
    ],
)
def test_what_is_no_series_is_refused(
    session: elea.Session, tmp_path: Path, selector: str, reason: str
) -> None:
    directory = written(tmp_path / "log", ten_per_second(3))
    with historian(session, directory):
        told = refusal(session, selector)
        assert told["error"] == "invalid"
        assert reason in str(told["detail"])
