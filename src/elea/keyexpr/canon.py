"""Canonical form of key expressions, and the reasons a string is refused.

Everything here works on plain text and returns plain text; `keyexpr.py` wraps the result in a
value. Spec: wire.md 10.1 (grammar) and 10.3 (canonical form). Offsets count characters.
"""

from __future__ import annotations

from typing import Final

from elea.errors import KeyExprError, LimitError
from elea.limits import DEFAULT_LIMITS, Limits

_MISPLACED: Final = {
    "*": "`*` is legal as the whole chunk `*` or `**`, and after `$` as `$*`",
    "$": "`$` is legal only before `*`, as `$*`",
    "?": "`?` is forbidden everywhere; in a selector it begins the parameters",
    "#": "`#` is forbidden everywhere; use another character",
}


def validate(text: str, limits: Limits = DEFAULT_LIMITS) -> None:
    """Accept `text` as it stands, or raise.

    Raises:
        KeyExprError: it is no key expression, or not in canonical form.
        LimitError: it is larger than `limits` allow; this is looked at first.
    """
    _check_size(text, limits)
    if not _is_plain_key(text):
        _check_grammar(text)
        _check_canonical(text)
    _check_wildcards(text, limits)


def canonize(text: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the canonical form of `text`, or raise as `validate` does."""
    _check_size(text, limits)
    if not _is_plain_key(text):
        _check_grammar(text)
        canonical = _canonical(text)
        if "$*$*" in text and _is_refused_by_reference(text.encode()):
            raise KeyExprError(
                text,
                text.index("$*$*"),
                f"runs of `$*` that Zenoh 1.10 does not canonise; write {canonical!r}",
            )
        text = canonical
    _check_wildcards(text, limits)
    return text


def _is_plain_key(text: str) -> bool:
    """Whether `text` is an ASCII key without wildcards: the common case, decided quickly."""
    return (
        text.isascii()
        and "*" not in text
        and "$" not in text
        and "?" not in text
        and "#" not in text
        and "//" not in text
        and text != ""
        and text[0] != "/"
        and text[-1] != "/"
    )


def _check_grammar(text: str) -> None:
    if not text:
        raise KeyExprError(text, 0, "it is empty; a key expression has at least one chunk")
    if text[0] == "/":
        raise KeyExprError(text, 0, "it starts with `/`; start with a chunk")
    if text[-1] == "/":
        raise KeyExprError(text, len(text) - 1, "it ends with `/`; end with a chunk")
    offset = text.find("//")
    if offset >= 0:
        raise KeyExprError(text, offset + 1, "a chunk is empty; write one `/` between two chunks")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = "a lone surrogate is no character; use text that UTF-8 can carry"
        raise KeyExprError(text, error.start, reason) from None
    offset = 0
    for chunk in text.split("/"):
        if chunk != "*" and chunk != "**":
            _check_chunk(text, chunk, offset)
        offset += len(chunk) + 1


def _check_chunk(text: str, chunk: str, offset: int) -> None:
    # Once every `$*` is out of the way, none of these characters has a legal place left.
    for index, char in enumerate(chunk.replace("$*", "__")):
        reason = _MISPLACED.get(char)
        if reason is not None:
            raise KeyExprError(text, offset + index, reason)


def _check_canonical(text: str) -> None:
    """Refuse a text that follows the grammar but is not the one way to write its set."""
    offset = text.find("$*$*")
    if offset >= 0:
        raise _not_canonical(text, offset, "`$*$*` is written `$*`")
    offset = 0
    previous = ""
    for chunk in text.split("/"):
        if chunk == "$*":
            raise _not_canonical(text, offset, "a chunk that is only `$*` is written `*`")
        if previous == "**":
            if chunk == "**":
                raise _not_canonical(text, offset - 3, "`**/**` is written `**`")
            if chunk == "*":
                raise _not_canonical(text, offset - 3, "`**/*` is written `*/**`")
        previous = chunk
        offset += len(chunk) + 1


def _not_canonical(text: str, offset: int, rule: str) -> KeyExprError:
    return KeyExprError(text, offset, f"{rule}; the canonical form is {_canonical(text)!r}")


def _canonical(text: str) -> str:
    """Apply the four rewriting rules at once to a text that follows the grammar."""
    chunks: list[str] = []
    in_double_wild = False
    for chunk in text.split("/"):
        while "$*$*" in chunk:
            chunk = chunk.replace("$*$*", "$*")
        if chunk == "**":
            in_double_wild = True
        elif chunk in ("*", "$*"):
            chunks.append("*")  # a `**` still open moves behind it
        else:
            if in_double_wild:
                chunks.append("**")
                in_double_wild = False
            chunks.append(chunk)
    if in_double_wild:
        chunks.append("**")
    return "/".join(chunks)


def _is_refused_by_reference(octets: bytes) -> bool:
    """Whether Eclipse Zenoh 1.10.2 refuses to canonise this text, which the rules would allow.

    Its canoniser collapses a run of `$*` at the start of a chunk whole, but of a run further inside
    only the second `$*`. It then looks for more of the run two octets too far to the right: a `$*`
    found there is taken for the run's and swallows the octets between. Both leave a `$*$*` behind,
    which is refused. When fewer than two octets follow the run it aborts without an answer (wire.md
    10.3). We refuse what it refuses, because a text that one node takes and another refuses splits
    the network; where it has no answer the rules decide.
    """
    at = 0
    at_chunk_start = True
    is_refused = False
    while True:
        found = octets.find(b"$*$*", at)
        if found < 0:
            return is_refused
        if found > at or at == 0:
            at_chunk_start = found == 0 or octets[found - 1] == 0x2F
        at = found + 2
        if at_chunk_start:
            continue
        if at + 4 > len(octets):
            return False
        if octets.startswith(b"$*", at + 4):
            is_refused = True
            at += 4
        else:
            is_refused = is_refused or octets.startswith(b"$*", at + 2)
            at += 2


def _check_size(text: str, limits: Limits) -> None:
    # Before anything reads or splits the text: a hostile megabyte must cost nothing. A character is
    # at least one octet, so only a text that might fit is measured in octets.
    octets_len = len(text)
    if octets_len <= limits.keyexpr_len and not text.isascii():
        octets_len = len(text.encode(errors="replace"))
    if octets_len > limits.keyexpr_len:
        raise LimitError("keyexpr_len", octets_len, limits.keyexpr_len)
    chunks_count = text.count("/") + 1
    if chunks_count > limits.keyexpr_chunks_count:
        raise LimitError("keyexpr_chunks_count", chunks_count, limits.keyexpr_chunks_count)


def _check_wildcards(text: str, limits: Limits) -> None:
    if "*" not in text:
        return
    count = text.count("**")
    if count > limits.keyexpr_double_wild_count:
        raise LimitError("keyexpr_double_wild_count", count, limits.keyexpr_double_wild_count)
    if text.count("$*") > limits.keyexpr_sub_wild_count:
        count = max([chunk.count("$*") for chunk in text.split("/")])
        if count > limits.keyexpr_sub_wild_count:
            raise LimitError("keyexpr_sub_wild_count", count, limits.keyexpr_sub_wild_count)
