"""Names of logs, and recordings that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from elea.errors import InvalidValueError, KeyExprError
from elea.store.recorder.settings import Names, RecordingSettings, default_name


@pytest.mark.parametrize(
    ("key_expr", "name", "key", "expected"),
    [
        ("fleet/**", "fleet", "fleet/r1/pose", "fleet"),
        ("fleet/{robot}/**", "{robot}", "fleet/r1/pose", "r1"),
        ("fleet/${robot:*}/**", "of-{robot}", "fleet/r1", "of-r1"),
        ("{site}/*/{robot:*}/x$*", "{site}.{robot}", "a/b/c/xy", "a.c"),
        ("fleet/{robot}/**", "{robot}", "fleet/a b/c", "a_20b"),
        ("fleet/{robot}/**", "{robot}", "fleet/../c", "_2e."),
        ("fleet/{robot}/**", "{robot}", "fleet/ä/c", "_c3_a4"),
    ],
)
def test_names_come_from_keys(key_expr: str, name: str, key: str, expected: str) -> None:
    names = Names((key_expr,), name)
    assert names.of(key) == names.of(key) == expected
    assert names.includes(key)


@pytest.mark.parametrize(
    ("key_exprs", "name", "complaint"),
    [
        ((), "a", "saw none"),
        (("a/**", "a/b/*"), "a", "keys in common"),
        (("a/*/c", "a/b/*"), "a", "keys in common"),
        (("a/**",), "a/b", "legal are letters"),
        (("a/**",), "..", "legal are letters"),
        (("a/**",), "", "legal are letters"),
        (("a/{x}/**",), "{y}", "are: x"),
        (("a/**",), "{y}", "name one as in"),
        (("a/**",), "{", "saw '{'"),
        (("a/{x}", "b/*"), "{x}", "are: none"),
    ],
)
def test_what_cannot_be_is_refused(key_exprs: tuple[str, ...], name: str, complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        RecordingSettings(key_exprs=key_exprs, name=name, directory=Path("x"))


def test_a_key_that_is_not_recorded_has_no_log() -> None:
    names = Names(("fleet/{robot}/**",), "{robot}")
    assert not names.includes("other/a")
    with pytest.raises(KeyExprError, match="no key expression"):
        names.of("other/a")


@pytest.mark.parametrize(
    ("key_expr", "name"), [("fleet/**", "fleet"), ("a/b/*/c", "a-b"), ("**", "all"), ("a/{x}", "a")]
)
def test_a_log_has_a_name_by_default(key_expr: str, name: str) -> None:
    assert default_name(key_expr) == name
