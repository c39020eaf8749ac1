"""Hypothesis strategies for keys and key expressions."""

from __future__ import annotations

from hypothesis import strategies as st

from elea.keyexpr.canon import canonize

# Few letters, so that two draws often match; characters of two, three and four octets.
LETTERS = "aab@é中😀 ."

plain_chunks = st.one_of(
    st.sampled_from(["a", "b", "ab", "aba", "é", "中a", "a b", "."]),
    st.text(LETTERS, min_size=1, max_size=4).filter(lambda chunk: not chunk.startswith("@")),
)
verbatim_chunks = st.sampled_from(["@", "@a", "@b", "@aé", "@a$*", "@$*b"])
sub_wild_chunks = st.lists(
    st.sampled_from(["a", "b", "ab", "é", "$*", "$*", "@"]), min_size=2, max_size=7
).map(lambda parts: _sub_wild("".join(parts)))

chunks = st.one_of(
    plain_chunks,
    plain_chunks,
    st.just("*"),
    st.just("**"),
    st.just("**"),
    sub_wild_chunks,
    verbatim_chunks,
)


def _sub_wild(text: str) -> str:
    while "$*$*" in text:
        text = text.replace("$*$*", "$*")
    return "a$*" if text == "$*" or "$" not in text or text[0] == "@" else text


def _expression(parts: list[str]) -> str:
    return canonize("/".join(parts))


#: Concrete keys.
keys = st.lists(st.one_of(plain_chunks, st.sampled_from(["@", "@a", "@b"])), min_size=1, max_size=8)
key_texts = keys.map("/".join)

#: Canonical key expressions.
expression_texts = st.lists(chunks, min_size=1, max_size=8).map(_expression)


@st.composite
def related_pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two canonical expressions of which the second is a bent copy of the first, or its own."""
    first = draw(expression_texts)
    if draw(st.integers(0, 4)) == 0:
        return first, draw(expression_texts)
    parts: list[str] = []
    for chunk in first.split("/"):
        match draw(st.integers(0, 9)):
            case 0:
                parts.append("**")
            case 1:
                parts.append("*")
            case 2:
                pass
            case 3:
                parts += [chunk, draw(chunks)]
            case 4:
                parts.append(draw(chunks))
            case _:
                parts.append(chunk)
    return first, _expression(parts) if parts else first


#: Anything a user may type: mostly the characters of the grammar, in any order.
raw_texts = st.one_of(
    st.lists(
        st.sampled_from(["a", "é", "/", "*", "**", "$", "$*", "$*$*", "@", "#", "?", "/**/", "//"]),
        max_size=12,
    ).map("".join),
    st.text(max_size=20),
)
