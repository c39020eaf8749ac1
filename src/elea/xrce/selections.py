"""Selections: a resource, and what has to be true of the content (3).

`xrce://lab/*?{v > 3}`. A `{` cannot be in a name, so the first `?{` begins the predicate; a `?` at
the end, behind a marker part, is an empty one; every other `?` is a wildcard (A-5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from elea.decode.layout import Layout
from elea.encoding import Encoding
from elea.errors import InvalidValueError, LimitError, PredicateError, UnsupportedPredicateError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.check import check
from elea.predicate.evaluate import Test, compile_predicate
from elea.predicate.model import ALWAYS
from elea.predicate.parser import parse as parse_predicate
from elea.predicate.payload import PayloadFields
from elea.xrce.names import NAME_LEN_MAX, Resource, Style, parse
from elea.xrce.status import RefusedError, Status

QUERY_LEN_MAX: Final = 4_096
_BEGIN: Final = "?{"


@dataclass(slots=True, frozen=True)
class Selection:
    """A resource and a predicate; two are equal if their canonical texts are."""

    resource: Resource
    predicate: str = ""  # canonical; empty is always true
    test: Test | None = field(default=None, compare=False, repr=False)

    def spelled(self, style: Style = Style.XRCE) -> str:
        """The query string."""
        name = self.resource.spelled(style)
        return f"{name}?{{{self.predicate}}}" if self.predicate else name

    def selects(
        self,
        payload: bytes,
        encoding: Encoding,
        *,
        key: str,
        properties: Mapping[str, object] | None = None,
        layout: Layout | None = None,
    ) -> bool:
        """Whether the predicate is true of a sample: false and unknown are not."""
        if self.test is None:
            return True
        fields = PayloadFields(payload, encoding, key=key, properties=properties, layout=layout)
        return self.test(fields) is True


def parse_selection(
    query: bytes,
    sid: int = 0,
    *,
    parameters: tuple[str, ...] = (),
    layout: Layout | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Selection:
    """Read a query string.

    Args:
        query: The text as octets.
        sid: Whose query it is, for the refusal.
        parameters: The values of `%0`, `%1`, ...
        layout: The type of what it selects, if that is known.
        limits: Bounds of predicates.

    Raises:
        RefusedError: It is none (5), too long or too deep (1), or asks for what is not there (6).

    Example:
        >>> parse_selection(b"/lab/*#?{v>%0}", parameters=("3",)).spelled()
        'xrce://lab/*?{v > 3}'
    """
    if len(query) > QUERY_LEN_MAX:
        text = f"a query of {len(query)} octets; at most {QUERY_LEN_MAX} are legal"
        raise RefusedError(Status.NO_SPACE, sid, text)
    name, predicate = _parted(text_of(query, sid), sid)
    resource = resource_of(name.encode(), sid)
    if not predicate.strip():
        return Selection(resource)
    try:
        tree = parse_predicate(predicate, parameters, limits=limits)
        check(tree, layout, text=predicate)
        test = compile_predicate(tree, limits=limits)
    except UnsupportedPredicateError as error:
        raise RefusedError(Status.UNSUPPORTED, sid, str(error)) from None
    except PredicateError as error:
        raise RefusedError(Status.INVALID, sid, str(error)) from None
    except LimitError as error:
        raise RefusedError(Status.NO_SPACE, sid, str(error)) from None
    return Selection(resource) if tree == ALWAYS else Selection(resource, str(tree), test)


def resource_of(name: bytes, rid: int = 0) -> Resource:
    """Read a name.

    Raises:
        RefusedError: It is none (5), or too long (1).
    """
    if len(name) > NAME_LEN_MAX:
        text = f"a name of {len(name)} octets; at most {NAME_LEN_MAX} are legal"
        raise RefusedError(Status.NO_SPACE, rid, text)
    try:
        return parse(text_of(name, rid))
    except InvalidValueError as error:
        raise RefusedError(Status.INVALID, rid, str(error)) from None


def text_of(octets: bytes, id_: int) -> str:
    """Octets as text.

    Raises:
        RefusedError: They are not UTF-8 (5).
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise RefusedError(Status.INVALID, id_, "the text is not UTF-8") from None


def _parted(text: str, sid: int) -> tuple[str, str]:
    name, begin, predicate = text.partition(_BEGIN)
    if begin:
        if not predicate.endswith("}"):
            raise RefusedError(Status.INVALID, sid, "the predicate does not end with }")
        return name, predicate[:-1]
    if "#" in text and text.endswith("?"):
        return text[:-1], ""
    return text, ""
