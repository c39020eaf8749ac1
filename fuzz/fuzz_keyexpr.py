"""Two key expressions from any bytes: parse, canonise, match both ways, keep the cheap laws.

The bytes are split at the first NUL; each half is read as UTF-8. Only KeyExprError and LimitError
may come out of it.
"""

from __future__ import annotations

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes, intersects

SEEDS: list[bytes] = [
    b"a/b\0a/*",
    b"a/**/b/**/c\0**/b/*",
    b"a$*b$*c/x\0a$*c/$*x",
    b"@a/**/@b\0@a/x/@b",
    b"**/*/$*/**\0$*$*a/b",
    b"a$*$*b\0b$*$*/b$*$*/x",
    "é/中$*/😀\0**/😀".encode(),
    b"/".join([b"**/a$*a"] * 16) + b"\0" + b"/".join([b"aaa"] * 64),
    b"a//b\0#?$",
]


def one_input(data: bytes) -> None:
    """Run one input; an exception or a failed assertion is a finding."""
    first, _, second = data.partition(b"\0")
    a = _parse(first.decode(errors="replace"))
    b = _parse(second.decode(errors="surrogateescape"))
    if a is None or b is None:
        return
    x, y = str(a), str(b)
    meet = intersects(x, y)
    assert meet == intersects(y, x), "intersection is symmetric"
    forth, back = includes(x, y), includes(y, x)
    assert meet or not (forth or back), "what includes also intersects"
    assert (forth and back) == (x == y), "only equal expressions include each other"

    try:
        joined = a / b
    except LimitError:
        return
    assert joined.chunks[0] == a.chunks[0] or a.chunks[0] == "**", "the first chunk stays first"


def _parse(text: str) -> KeyExpr | None:
    try:
        canonical = KeyExpr.autocanonize(text)
    except (KeyExprError, LimitError):
        try:
            KeyExpr(text)
        except (KeyExprError, LimitError):
            return None
        raise AssertionError("valid as it is, and yet without canonical form") from None
    assert KeyExpr.autocanonize(canonical) == canonical, "canonical form stays"
    assert KeyExpr(str(canonical)) == canonical, "canonical form is valid"
    return canonical
