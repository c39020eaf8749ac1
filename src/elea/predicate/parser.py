"""From the text of a predicate to its tree.

    predicate  = or-expr
    or-expr    = and-expr *( "OR" and-expr )
    and-expr   = not-expr *( "AND" not-expr )
    not-expr   = "NOT" not-expr / "(" or-expr ")" / comparison / between / call
    comparison = operand relop operand
    between    = operand [ "NOT" ] "BETWEEN" operand "AND" operand
    relop      = "=" / "<>" / "!=" / "<" / "<=" / ">" / ">=" / "LIKE"
    operand    = field / literal / parameter / call
    call       = name "(" [ operand *( "," operand ) ] ")"
    field      = name *( "." name / "[" 1*DIGIT "]" )
    parameter  = "%" 1*2DIGIT
    literal    = integer / hex / float / "'" text "'" / "TRUE" / "FALSE"

Keywords are written in any case, names as they are; a name in double quotes may hold anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, NoReturn

from elea.decode.lexer import Lexeme, Token, next_lexeme
from elea.decode.paths import Path, Step
from elea.decode.values import Kind
from elea.errors import LimitError, PredicateError, UnsupportedPredicateError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.functions import STANDARD, Functions, coordinates
from elea.predicate.model import (
    ALWAYS,
    And,
    Between,
    Call,
    Comparison,
    Field,
    Literal,
    Not,
    Operand,
    Or,
    Parameter,
    Predicate,
    Relation,
)

_RELATIONS: Final = {relation.value: relation for relation in Relation} | {"!=": Relation.UNEQUAL}
_RELATION_LEGAL: Final = "a comparison (= <> < <= > >= LIKE) or [NOT] BETWEEN"
_OPERAND_LEGAL: Final = "a field, a number, a 'text', TRUE, FALSE, %n or a call"
# Other languages and statements: known, and not part of this one.
_FOREIGN: Final = re.compile(r"\s*(?:js|py):")
_STATEMENTS: Final = frozenset({"SELECT", "JOIN", "INNER", "NATURAL", "ORDER", "WHERE"})


def parse(
    text: str,
    parameters: Sequence[str] | None = None,
    *,
    functions: Functions = STANDARD,
    limits: Limits = DEFAULT_LIMITS,
) -> Predicate:
    """The predicate that a text is; the empty text is always true.

    Args:
        text: The predicate.
        parameters: The values of `%0`, `%1`, ..., each written as a literal or as coordinates
            `a,b`; without them, parameters stay in the tree.
        functions: The functions that may be called.
        limits: Bounds for the length and the depth.

    Raises:
        PredicateError: the text follows no rule of the language, a parameter has no value, or a
            function does not take that many arguments.
        UnsupportedPredicateError: it is in another language, or calls an unknown function.
        LimitError: it is too long or too deep.

    Example:
        >>> str(parse("not (a=1 or b like 'x%') and c between %0 and 0x10", ["-1.5"]))
        "NOT (a = 1 OR b LIKE 'x%') AND c BETWEEN -1.5 AND 16"
    """
    _check_length(text, limits)
    if _FOREIGN.match(text):
        raise UnsupportedPredicateError(text, 0, "js: and py: are reserved; predicates are SQL-92")
    values = None if parameters is None else [_parameter(one, limits) for one in parameters]
    return _Parser(text, values, functions, limits.predicate_depth).whole()


def parse_literal(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Literal:
    """The one literal that a text is.

    Raises:
        PredicateError: it is none, or there is more after it.
        LimitError: it is too long.
    """
    _check_length(text, limits)
    parser = _Parser(text, None, STANDARD, 1)
    literal = parser.literal()
    if literal is None:
        parser.refuse("a number, a 'text', TRUE or FALSE")
    parser.expect_end("the end")
    return literal


def parse_path(text: str, at: int = 0) -> tuple[Path, int]:
    """The path at an offset of a text, and the offset after it.

    Raises:
        PredicateError: there is none.
    """
    parser = _Parser(text, None, STANDARD, 1, at)
    if parser.lexeme.token not in (Token.NAME, Token.QUOTED_NAME):
        parser.refuse("a field")
    return parser.path(), parser.lexeme.at


def _parameter(text: str, limits: Limits) -> Literal:
    # A point is given without quotes, though it is no literal.
    point = len(text) <= limits.predicate_len and coordinates(text) is not None
    return Literal(text) if point else parse_literal(text, limits=limits)


def _check_length(text: str, limits: Limits) -> None:
    length = len(text.encode("utf-8", "surrogatepass"))
    if length > limits.predicate_len:
        raise LimitError("predicate_len", length, limits.predicate_len)


class _Parser:
    """Recursive descent; `lexeme` is the token that was not used yet."""

    __slots__ = ("_depth", "_depth_max", "_functions", "_text", "_values", "lexeme")

    def __init__(
        self,
        text: str,
        values: list[Literal] | None,
        functions: Functions,
        depth_max: int,
        at: int = 0,
    ) -> None:
        self._text = text
        self._values = values
        self._functions = functions
        self._depth = 0
        self._depth_max = depth_max
        self.lexeme: Lexeme = next_lexeme(text, at)

    def whole(self) -> Predicate:
        if self.lexeme.token is Token.END:
            return ALWAYS
        if self._word() in _STATEMENTS:
            self._refuse_statement()
        predicate = self._or()
        if self._word() in _STATEMENTS:
            self._refuse_statement(at_all=True)
        self.expect_end("AND, OR or the end")
        return predicate

    def expect_end(self, legal: str) -> None:
        if self.lexeme.token is not Token.END:
            self.refuse(legal)

    def refuse(self, legal: str) -> NoReturn:
        reason = f"expected {legal}, found {self.lexeme.shown}"
        raise PredicateError(self._text, self.lexeme.at, reason)

    def _or(self) -> Predicate:
        terms = [self._and()]
        while self._skip(Token.KEYWORD, "OR"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _and(self) -> Predicate:
        terms = [self._not()]
        while self._skip(Token.KEYWORD, "AND"):
            terms.append(self._not())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _not(self) -> Predicate:
        if self._skip(Token.KEYWORD, "NOT"):
            self._deeper()
            term = self._not()
            self._depth -= 1
            return Not(term)
        if self._skip(Token.SIGN, "("):
            self._deeper()
            inner = self._or()
            if not self._skip(Token.SIGN, ")"):
                self.refuse("AND, OR or ')'")
            self._depth -= 1
            return inner
        return self._condition()

    def _condition(self) -> Predicate:
        start = self.lexeme.at
        left = self._operand(f"NOT, '(' or {_OPERAND_LEGAL}")
        relation = _RELATIONS.get(self.lexeme.text)
        if relation is not None and self.lexeme.token in (Token.SIGN, Token.KEYWORD):
            self._advance()
            return Comparison(left, relation, self._operand(_OPERAND_LEGAL))
        negated = self._skip(Token.KEYWORD, "NOT")
        if self._skip(Token.KEYWORD, "BETWEEN"):
            low = self._operand(_OPERAND_LEGAL)
            if not self._skip(Token.KEYWORD, "AND"):
                self.refuse("AND and the upper end of the range")
            return Between(left, low, self._operand(_OPERAND_LEGAL), negated)
        if negated:
            self.refuse("BETWEEN after NOT")
        if not isinstance(left, Call):
            self.refuse(_RELATION_LEGAL)
        result = self._functions[left.name].result
        if result not in (None, Kind.BOOLEAN):
            reason = f"{left.name}() gives no truth value; compare it"
            raise PredicateError(self._text, start, reason)
        return left

    def _operand(self, legal: str) -> Operand:
        lexeme = self.lexeme
        literal = self.literal()
        if literal is not None:
            return literal
        if lexeme.token is Token.PARAMETER:
            self._advance()
            return self._parameter(int(lexeme.text), lexeme.at)
        if lexeme.token not in (Token.NAME, Token.QUOTED_NAME):
            self.refuse(legal)
        path = self.path()
        if len(path) == 1 and lexeme.token is Token.NAME and self._skip(Token.SIGN, "("):
            return self._call(lexeme)
        return Field(path, lexeme.at)

    def literal(self) -> Literal | None:
        lexeme = self.lexeme
        value: bool | int | float | str
        match lexeme.token:
            case Token.INTEGER:
                value = int(lexeme.text, 16 if "x" in lexeme.text.lower() else 10)
            case Token.FLOAT:
                value = float(lexeme.text)
                if math.isinf(value):
                    reason = f"{lexeme.shown} is larger than any float"
                    raise PredicateError(self._text, lexeme.at, reason)
            case Token.TEXT:
                value = lexeme.text
            case Token.KEYWORD if lexeme.text in ("TRUE", "FALSE"):
                value = lexeme.text == "TRUE"
            case _:
                return None
        self._advance()
        return Literal(value)

    def path(self) -> Path:
        steps: list[Step] = [self.lexeme.text]
        self._advance()
        while True:
            if self._skip(Token.SIGN, "."):
                if self.lexeme.token not in (Token.NAME, Token.KEYWORD, Token.QUOTED_NAME):
                    self.refuse("the name of a member after '.'")
                lexeme = self.lexeme
                steps.append(lexeme.said if lexeme.token is Token.KEYWORD else lexeme.text)
                self._advance()
            elif self._skip(Token.SIGN, "["):
                if self.lexeme.token is not Token.INTEGER or not self.lexeme.text.isdigit():
                    self.refuse("a position from 0 on")
                steps.append(int(self.lexeme.text))
                self._advance()
                if not self._skip(Token.SIGN, "]"):
                    self.refuse("']'")
            else:
                return tuple(steps)

    def _parameter(self, number: int, at: int) -> Operand:
        if self._values is None:
            return Parameter(number, at)
        if number < len(self._values):
            return self._values[number]
        count = len(self._values)
        raise PredicateError(self._text, at, f"%{number} has no value; {count} are given, from %0")

    def _call(self, name: Lexeme) -> Call:
        self._deeper()
        arguments: list[Operand] = []
        if not self._skip(Token.SIGN, ")"):
            arguments.append(self._operand(f"')' or {_OPERAND_LEGAL}"))
            while self._skip(Token.SIGN, ","):
                arguments.append(self._operand(_OPERAND_LEGAL))
            if not self._skip(Token.SIGN, ")"):
                self.refuse("',' or ')'")
        self._depth -= 1
        function = self._functions.get(name.text)
        if function is None:
            known = ", ".join(sorted(self._functions))
            reason = f"there is no function {name.shown}; there are {known}"
            raise UnsupportedPredicateError(self._text, name.at, reason)
        if len(arguments) != function.arity:
            reason = f"{name.text}() takes {function.arity} arguments, got {len(arguments)}"
            raise PredicateError(self._text, name.at, reason)
        return Call(name.text, tuple(arguments), name.at)

    def _word(self) -> str:
        return self.lexeme.text.upper() if self.lexeme.token is Token.NAME else ""

    def _refuse_statement(self, *, at_all: bool = False) -> None:
        """A statement, unless what looks like one is a field of that name."""
        after = next_lexeme(self._text, self.lexeme.end)
        compared = after.text in _RELATIONS or after.text in ("NOT", "BETWEEN", ".", "[", "(")
        if at_all or not compared:
            reason = f"{self.lexeme.text} is no part of predicates; give the condition alone"
            raise UnsupportedPredicateError(self._text, self.lexeme.at, reason)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > self._depth_max:
            raise LimitError("predicate_depth", self._depth, self._depth_max)

    def _skip(self, token: Token, text: str) -> bool:
        if self.lexeme.token is not token or self.lexeme.text != text:
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        self.lexeme = next_lexeme(self._text, self.lexeme.end)
