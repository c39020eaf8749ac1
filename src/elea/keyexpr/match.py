"""intersects, includes and relation between two key expressions. Spec: wire.md 10.4.

Every function takes valid, canonical texts of any length and answers in O(n*m) chunk comparisons
at worst; there is no recursion, no backtracking and no regular expression to blow up (threat T20).
Three facts make tables unnecessary:

* A verbatim chunk equals only itself and no wildcard reaches across it. So two expressions meet
  only if their verbatim chunks are the same sequence, and then stretch by stretch between them.
* Two patterns that both hold a wildcard of unbounded reach always agree on what lies between their
  outermost ones: write one middle after the other. Only the two ends have to be compared. That
  holds for `$*` in a chunk and for `**` in a stretch.
* One pattern against a text without such a wildcard is placed piece by piece, each as far left as
  it fits: a solution with a piece further right stays one when the piece moves left.
"""

from __future__ import annotations

from typing import Final

DISJOINT: Final = 0
INTERSECTS: Final = 1
INCLUDES: Final = 2
EQUALS: Final = 3


def relation(a: str, b: str) -> int:
    """The strongest of EQUALS, INCLUDES, INTERSECTS and DISJOINT that holds, seen from `a`."""
    if a == b:
        return EQUALS
    if includes(a, b):
        return INCLUDES
    if intersects(a, b):
        return INTERSECTS
    return DISJOINT


def intersects(a: str, b: str) -> bool:
    """Whether some key belongs to both expressions."""
    if a == b:
        return True
    a_wild = a.find("*")
    b_wild = b.find("*")
    if a_wild < 0 and b_wild < 0:
        return False
    # The chunks before the first wildcard are plain text on both sides: most pairs end here.
    head_len = min(_literal_head_len(a, a_wild), _literal_head_len(b, b_wild))
    if head_len > 0 and a[:head_len] != b[:head_len]:
        return False
    a_chunks = a.split("/")
    b_chunks = b.split("/")
    if "@" not in a and "@" not in b:
        return _stretches_intersect(a_chunks, 0, len(a_chunks), b_chunks, 0, len(b_chunks))
    return _verbatim_intersect(a_chunks, b_chunks)


def includes(a: str, b: str) -> bool:
    """Whether every key of `b` is a key of `a`, by the rules of wire.md 10.4.

    The rules compare texts, not sets: `*/**` does not include `**/a`, although each key of the
    second belongs to the first. All nodes must agree on the answer, so we answer as they do.
    """
    if a == b:
        return True
    a_wild = a.find("*")
    if a_wild < 0:
        return False
    head_len = min(_literal_head_len(a, a_wild), len(b))
    if head_len > 0 and a[:head_len] != b[:head_len]:
        return False
    return _chunks_include(a.split("/"), b.split("/"))


def chunk_intersects(x: str, y: str) -> bool:
    """Whether two chunks have a text in common; neither is `**`."""
    if x == y:
        return True
    if x[0] == "@" or y[0] == "@":
        return False
    if x == "*" or y == "*":
        return True
    x_first = x.find("$")
    y_first = y.find("$")
    if x_first < 0:
        return y_first >= 0 and sub_wild_matches(y, x)
    if y_first < 0:
        return sub_wild_matches(x, y)
    head_len = min(x_first, y_first)
    if x[:head_len] != y[:head_len]:
        return False
    x_len = len(x)
    y_len = len(y)
    tail_len = min(x_len - x.rfind("$"), y_len - y.rfind("$")) - 2
    return x[x_len - tail_len :] == y[y_len - tail_len :]


def chunk_includes(x: str, y: str) -> bool:
    """Whether chunk `x`, which is not `**`, includes chunk `y`, which may be."""
    if x == y:
        return True
    if x[0] == "@" or y[0] == "@" or y == "**":
        return False
    if x == "*":
        return True
    if y == "*" or x.find("$") < 0:
        return False
    return sub_wild_matches(x, y)


def sub_wild_matches(pattern: str, text: str) -> bool:
    """Whether a chunk with `$*` matches a text; a `$*` in the text is ordinary text there."""
    first = pattern.find("$")
    last = pattern.rfind("$")
    end = len(text) - (len(pattern) - last - 2)
    if end < first or not text.startswith(pattern[:first]):
        return False
    if not text.endswith(pattern[last + 2 :]):
        return False
    if first == last:
        return True
    at = first
    for piece in pattern[first + 2 : last].split("$*"):
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _literal_head_len(text: str, first_wild: int) -> int:
    """How many characters of `text` come before its first chunk with a wildcard."""
    if first_wild < 0:
        return len(text)
    return text.rfind("/", 0, first_wild) + 1


def _verbatim_intersect(a: list[str], b: list[str]) -> bool:
    """Compare stretch by stretch between verbatim chunks, which must be the same on both sides."""
    a_at = 0
    b_at = 0
    while True:
        a_end = _next_verbatim(a, a_at)
        b_end = _next_verbatim(b, b_at)
        if not _stretches_intersect(a, a_at, a_end, b, b_at, b_end):
            return False
        if a_end == len(a) or b_end == len(b):
            return a_end == len(a) and b_end == len(b)
        if a[a_end] != b[b_end]:
            return False
        a_at = a_end + 1
        b_at = b_end + 1


def _next_verbatim(chunks: list[str], start: int) -> int:
    """Where the next verbatim chunk is, or the end."""
    at = start
    end = len(chunks)
    while at < end and chunks[at][0] != "@":
        at += 1
    return at


def _stretches_intersect(
    a: list[str], a_at: int, a_end: int, b: list[str], b_at: int, b_end: int
) -> bool:
    """Whether `a[a_at:a_end]` and `b[b_at:b_end]`, both free of verbatim chunks, intersect."""
    while a_at < a_end and b_at < b_end:
        x = a[a_at]
        y = b[b_at]
        if x == "**" or y == "**":
            break
        if not chunk_intersects(x, y):
            return False
        a_at += 1
        b_at += 1
    while a_at < a_end and b_at < b_end:
        x = a[a_end - 1]
        y = b[b_end - 1]
        if x == "**" or y == "**":
            break
        if not chunk_intersects(x, y):
            return False
        a_end -= 1
        b_end -= 1
    if a_at == a_end:
        return b_at == b_end or (b_end - b_at == 1 and b[b_at] == "**")
    if b_at == b_end:
        return a_end - a_at == 1 and a[a_at] == "**"
    # What is left starts with `**` on one side and ends with `**` on one side.
    if "**" not in a[a_at:a_end]:
        return _pieces_fit(b, b_at, b_end, a, a_at, a_end)
    if "**" not in b[b_at:b_end]:
        return _pieces_fit(a, a_at, a_end, b, b_at, b_end)
    return True


def _pieces_fit(
    pattern: list[str], at: int, end: int, text: list[str], text_at: int, text_end: int
) -> bool:
    """Place the pieces between the `**` of a pattern, first to last, each as far left as it fits.

    `pattern[at:end]` starts and ends with `**`; `text[text_at:text_end]` holds none.
    """
    at += 1
    while at < end:
        piece_end = at
        while pattern[piece_end] != "**":
            piece_end += 1
        piece_len = piece_end - at
        while True:
            if text_at + piece_len > text_end:
                return False
            matched = 0
            while matched < piece_len and chunk_intersects(
                pattern[at + matched], text[text_at + matched]
            ):
                matched += 1
            if matched == piece_len:
                break
            text_at += 1
        text_at += piece_len
        at = piece_end + 1
    return True


def _chunks_include(a: list[str], b: list[str]) -> bool:
    """Inclusion by chunks: `a` is the pattern, `b` a text in which `**` is one more word.

    The last `**` passed is where to go on after a mismatch: it takes one chunk more. Going back to
    an earlier one cannot help, as every piece already stands as far left as it fits. A verbatim
    chunk stops a `**`, and moving a piece beyond one would need a `**` that spans it.
    """
    a_at = 0
    b_at = 0
    a_end = len(a)
    b_end = len(b)
    retry_a = -1  # the chunk behind the last `**` of `a`
    retry_b = 0  # the first chunk of `b` which that `**` has not taken
    while b_at < b_end:
        if a_at < a_end:
            x = a[a_at]
            if x == "**":
                a_at += 1
                retry_a = a_at
                retry_b = b_at
                continue
            if chunk_includes(x, b[b_at]):
                a_at += 1
                b_at += 1
                continue
        if retry_a < 0 or b[retry_b][0] == "@":
            return False
        retry_b += 1
        a_at = retry_a
        b_at = retry_b
    return a_at == a_end or (a_end - a_at == 1 and a[a_at] == "**")
