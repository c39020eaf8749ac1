"""Predicates: one language to choose samples by what is in them, for filters, selections and Spark.

text -> `parse` -> tree -> `compile_predicate` -> function of `PayloadFields`
                        -> `to_arrow` or `split` -> expression over columns
"""

from elea.decode.layout import Layout, parse_layout
from elea.decode.values import Enumerator, Kind
from elea.predicate.arrow import Split, split, to_arrow
from elea.predicate.check import Remark, check
from elea.predicate.evaluate import Fields, MappingFields, Test, compile_predicate
from elea.predicate.functions import STANDARD, Function, Functions
from elea.predicate.model import ALWAYS, Predicate, all_of
from elea.predicate.parser import parse, parse_literal
from elea.predicate.payload import PayloadFields
from elea.predicate.projection import Projection, filter_of, parse_projection, projection_of

__all__ = [
    "ALWAYS",
    "STANDARD",
    "Enumerator",
    "Fields",
    "Function",
    "Functions",
    "Kind",
    "Layout",
    "MappingFields",
    "PayloadFields",
    "Predicate",
    "Projection",
    "Remark",
    "Split",
    "Test",
    "all_of",
    "check",
    "compile_predicate",
    "filter_of",
    "parse",
    "parse_layout",
    "parse_literal",
    "parse_projection",
    "projection_of",
    "split",
    "to_arrow",
]
