"""The definitions, as they were written and checked."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from elea.xrce.dsl.check import check
from elea.xrce.dsl.model import Schema


def text(name: str = "messages") -> str:
    """The definitions as they were written."""
    return (files("elea.xrce.schema") / f"{name}.xrce").read_text(encoding="utf-8")


@cache
def schema(name: str = "messages") -> Schema:
    """The definitions, checked."""
    return check(text(name))
