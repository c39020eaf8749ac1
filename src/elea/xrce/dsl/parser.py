"""Text to trees, by descent: one method per rule of the grammar.

definitions = 1*definition
definition  = name *( "," name ) "=" type
type        = name / "nat" / "byte" / sequence / header / flag / enum / record / case / option
sequence    = "[" type "]"
header      = "header" number type
flag        = "flag" number
enum        = "enum" "{" symbol *( "," symbol ) "}"     symbol = name "=" number
record      = "record" "{" member *( "," member ) "}"   member = name ":" type
case        = "case" name "of" "{" alternative *( "," alternative ) "}"
alternative = label *( "," label ) "->" type            label = name / number [ "..." number ]
option      = "if" type "then" type
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from elea.errors import SchemaError
from elea.limits import XRCE_SCHEMA_DEPTH_MAX, XRCE_SCHEMA_LEN_MAX
from elea.xrce.dsl import model
from elea.xrce.dsl.lexer import Token, lexemes
from elea.xrce.dsl.model import refusal

_Item = TypeVar("_Item")


def parse(source: str) -> list[model.Definition]:
    """The definitions of a text, in its order.

    Raises:
        SchemaError: With line and column of the first token that does not fit.

    Example:
        >>> [definition.name for definition in parse("a, b = nat  c = [a]")]
        ['a', 'b', 'c']
    """
    if len(source) > XRCE_SCHEMA_LEN_MAX:
        raise SchemaError(
            1, 1, f"{len(source)} characters; a schema has at most {XRCE_SCHEMA_LEN_MAX}"
        )
    return _Parser(source).definitions()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._lexemes = lexemes(source)
        self._next = 0
        self._depth = 0

    def definitions(self) -> list[model.Definition]:
        found: list[model.Definition] = []
        while not found or self._lexemes[self._next].token is not Token.END:
            names = [self._name("a definition's name")]
            while self._take(","):
                names.append(self._name("another name for the same type"))
            self._expect("=", "between the names of a definition and its type")
            type_ = self._type()
            found += [model.Definition(name, type_, at) for name, at in names]
        return found

    def _type(self) -> model.Type:
        self._depth += 1
        lexeme = self._lexemes[self._next]
        at = lexeme.at
        if self._depth > XRCE_SCHEMA_DEPTH_MAX:
            raise self._refuse(f"nested deeper than {XRCE_SCHEMA_DEPTH_MAX}")
        self._next += 1
        type_: model.Type
        match lexeme.token, lexeme.text:
            case Token.NAME, name:
                type_ = model.Name(name, at)
            case Token.WORD, "nat":
                type_ = model.Nat(at)
            case Token.WORD, "byte":
                type_ = model.Byte(at)
            case Token.WORD, "[":
                element = self._type()
                self._expect("]", "after the type of the elements")
                type_ = model.Sequence(element, at)
            case Token.WORD, "header":
                type_ = model.Header(self._number("the width of the header"), self._type(), at)
            case Token.WORD, "flag":
                type_ = model.Flag(self._number("the bit of the flag"), at)
            case Token.WORD, "enum":
                type_ = model.Enumeration(self._braced(self._symbol), at)
            case Token.WORD, "record":
                type_ = model.Record(self._braced(self._member), at)
            case Token.WORD, "case":
                subject, _ = self._name("the member that selects")
                self._expect("of", "after the member that selects")
                type_ = model.Case(subject, self._braced(self._alternative), at)
            case Token.WORD, "if":
                condition = self._type()
                self._expect("then", "after the flag")
                type_ = model.Option(condition, self._type(), at)
            case _:
                self._next -= 1
                raise self._refuse(
                    f"expected a type, found {lexeme.shown}; a type is a name, nat, byte, [...],"
                    " header, flag, enum, record, case or if"
                )
        self._depth -= 1
        return type_

    def _symbol(self) -> model.Symbol:
        name, at = self._name("a symbol")
        self._expect("=", "between a symbol and its number")
        return model.Symbol(name, self._number("the number of the symbol"), at)

    def _member(self) -> model.Member:
        name, at = self._name("a member's name")
        self._expect(":", "between a member and its type")
        return model.Member(name, self._type(), at)

    def _alternative(self) -> model.Alternative:
        at = self._lexemes[self._next].at
        labels = [self._label()]
        while self._take(","):
            labels.append(self._label())
        self._expect("->", "after the labels of an alternative")
        return model.Alternative(tuple(labels), self._type(), at)

    def _label(self) -> model.Label:
        lexeme = self._lexemes[self._next]
        if lexeme.token is Token.NAME:
            self._next += 1
            return model.Label(lexeme.text, None, lexeme.at)
        first = self._number("a label")
        last = self._number("the end of the range") if self._take("...") else None
        return model.Label(first, last, lexeme.at)

    def _braced(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        self._expect("{", "before the list")
        items = [item()]
        while self._take(","):
            items.append(item())
        self._expect("}", "or `,` after an entry of the list")
        return tuple(items)

    def _name(self, what: str) -> tuple[str, int]:
        lexeme = self._lexemes[self._next]
        if lexeme.token is not Token.NAME:
            raise self._refuse(f"expected {what}, found {lexeme.shown}")
        self._next += 1
        return lexeme.text, lexeme.at

    def _number(self, what: str) -> int:
        lexeme = self._lexemes[self._next]
        if lexeme.token is not Token.NUMBER:
            raise self._refuse(f"expected {what}, a number, found {lexeme.shown}")
        self._next += 1
        return int(lexeme.text)

    def _take(self, word: str) -> bool:
        lexeme = self._lexemes[self._next]
        found = lexeme.token is Token.WORD and lexeme.text == word
        self._next += found
        return found

    def _expect(self, word: str, where: str) -> None:
        if not self._take(word):
            shown = self._lexemes[self._next].shown
            raise self._refuse(f"expected `{word}` {where}, found {shown}")

    def _refuse(self, reason: str) -> SchemaError:
        return refusal(self._source, self._lexemes[self._next].at, reason)
