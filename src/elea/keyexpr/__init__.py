"""Key expressions: values, matching, trees and formats."""

from elea.keyexpr.keyexpr import KeyExpr, SetIntersectionLevel
from elea.keyexpr.template import KeyFormat
from elea.keyexpr.tree import KeyExprTree

__all__ = ["KeyExpr", "KeyExprTree", "KeyFormat", "SetIntersectionLevel"]
