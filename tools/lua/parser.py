"""A parser of Lua 5.1: the text of a file as a tree whose nodes have line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from tools.lua.tree import (
    Anything,
    Assign,
    Block,
    Call,
    Evaluate,
    Expression,
    ForIn,
    ForNumber,
    Function,
    If,
    Index,
    Length,
    Local,
    Method,
    Name,
    Nothing,
    Number,
    Operation,
    Paren,
    Rest,
    Return,
    Statement,
    String,
    Table,
)

TOKEN = re.compile(
    r"""
    (?P<blank>\s+ | --\[\[.*?\]\] | --[^\n]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<string>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \[\[.*?\]\])
  | (?P<symbol>\.\.\. | \.\. | == | ~= | <= | >= | [-+*/%^\#<>=(){}\[\];:,.])
    """,
    re.VERBOSE | re.DOTALL,
)
KEYWORDS = frozenset({
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
})  # fmt: skip
# Left and right binding power of each binary operator.
POWERS = {
    "or": (1, 1), "and": (2, 2),
    "<": (3, 3), ">": (3, 3), "<=": (3, 3), ">=": (3, 3), "~=": (3, 3), "==": (3, 3),
    "..": (5, 4), "+": (6, 6), "-": (6, 6), "*": (7, 7), "/": (7, 7), "%": (7, 7), "^": (10, 9),
}  # fmt: skip
UNARY_POWER = 8
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class LuaSyntaxError(Exception):
    """The text is not Lua that this parser supports."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int


def parse(text: str, label: str) -> Function:
    """A whole file as one function without parameters."""
    return Parser(list(tokens(text, label)), label).chunk()


def tokens(text: str, label: str) -> Iterator[Token]:
    """The tokens of a text, without blanks and comments."""
    at, line = 0, 1
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise LuaSyntaxError(f"{label}:{line}: unexpected {text[at]!r}")
        kind, word = str(found.lastgroup), found[0]
        if kind == "name" and word in KEYWORDS:
            kind = "keyword"
        if kind != "blank":
            yield Token(kind, word, line)
        line += word.count("\n")
        at = found.end()
    yield Token("end", "<end of file>", line)


def unquoted(word: str) -> str:
    """The value of a string token."""
    if word.startswith("[["):
        return word[2:-2].removeprefix("\n")
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), word[1:-1])


def number(word: str) -> float:
    """The value of a number token."""
    return float(int(word, 16)) if word[:2] in ("0x", "0X") else float(word)


class Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, words: list[Token], label: str) -> None:
        self.words = words
        self.label = label
        self.at = 0
        self.function = Function(1, label)
        self.scopes: list[dict[str, Local]] = [{}]

    def chunk(self) -> Function:
        self.function.body = self.block("<end of file>")
        self.expect("<end of file>")
        return self.function

    # Tokens

    @property
    def word(self) -> Token:
        return self.words[self.at]

    def next(self) -> Token:
        self.at += 1
        return self.words[self.at - 1]

    def is_word(self, *texts: str) -> bool:
        return self.word.kind != "string" and self.word.text in texts

    def take(self, text: str) -> bool:
        """Consumes the next token if it has this text."""
        found = self.is_word(text)
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"{text} expected")

    def identifier(self) -> str:
        if self.word.kind != "name":
            self.fail("a name expected")
        return self.next().text

    def fail(self, why: str) -> NoReturn:
        raise LuaSyntaxError(f"{self.label}:{self.word.line}: {why}, not {self.word.text!r}")

    # Names

    def declare(self, name: str) -> Local:
        local = Local(name, self.function)
        self.scopes[-1][name] = local
        return local

    def resolve(self, name: str) -> Local | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    # Statements

    def scoped(self, *ends: str) -> list[Statement]:
        """A block with its own scope."""
        self.scopes.append({})
        body = self.block(*ends)
        self.scopes.pop()
        return body

    def block(self, *ends: str) -> list[Statement]:
        """Statements up to one of these words, which is not consumed."""
        found: list[Statement] = []
        while not self.is_word(*ends):
            if self.word.kind == "end":
                self.fail(f"{' or '.join(ends)} expected")
            if self.take(";") or self.take("break"):
                continue
            found.append(self.statement())
        return found

    def statement(self) -> Statement:
        parse_one = {
            "local": self.local, "if": self.conditional, "while": self.loop, "for": self.counted,
            "repeat": self.repeated, "do": self.grouped, "function": self.defined,
            "return": self.returned,
        }.get(self.word.text)  # fmt: skip
        if self.word.kind == "keyword" and parse_one is not None:
            return parse_one()
        return self.assignment()

    def local(self) -> Statement:
        line = self.next().line
        if self.take("function"):
            local = self.declare(self.identifier())
            value = self.body_of(local.name, line)
            return Assign(line, [Name(line, local.name, local)], [value])
        names = [self.identifier()]
        while self.take(","):
            names.append(self.identifier())
        values = self.expressions() if self.take("=") else []
        # Declared after its values: in `local x = x` the second x is another variable.
        targets: list[Expression] = [Name(line, name, self.declare(name)) for name in names]
        return Assign(line, targets, values)

    def conditional(self) -> Statement:
        line, branches, otherwise = self.next().line, [], list[Statement]()
        while True:
            condition = self.expression()
            self.expect("then")
            branches.append((condition, self.scoped("elseif", "else", "end")))
            if not self.take("elseif"):
                break
        if self.take("else"):
            otherwise = self.scoped("end")
        self.expect("end")
        return If(line, branches, otherwise)

    def loop(self) -> Statement:
        line = self.next().line
        condition = Evaluate(line, self.expression())
        self.expect("do")
        body = self.scoped("end")
        self.expect("end")
        return Block(line, [condition, *body])

    def repeated(self) -> Statement:
        line = self.next().line
        # The condition sees the locals of the body.
        self.scopes.append({})
        body = self.block("until")
        self.expect("until")
        body.append(Evaluate(self.word.line, self.expression()))
        self.scopes.pop()
        return Block(line, body)

    def grouped(self) -> Statement:
        line = self.next().line
        body = self.scoped("end")
        self.expect("end")
        return Block(line, body)

    def counted(self) -> Statement:
        line = self.next().line
        names = [self.identifier()]
        while self.take(","):
            names.append(self.identifier())
        numeric = self.take("=")
        if not numeric:
            self.expect("in")
        values = self.expressions()
        self.expect("do")
        self.scopes.append({})
        locals_ = [self.declare(name) for name in names]
        body = self.block("end")
        self.scopes.pop()
        self.expect("end")
        if numeric:
            return ForNumber(line, locals_[0], values, body)
        return ForIn(line, locals_, values, body)

    def defined(self) -> Statement:
        line = self.next().line
        name = self.identifier()
        target: Expression = Name(line, name, self.resolve(name))
        while self.take("."):
            part = self.identifier()
            name = f"{name}.{part}"
            target = Index(line, target, String(line, part))
        return Assign(line, [target], [self.body_of(name, line)])

    def returned(self) -> Statement:
        line = self.next().line
        bare = self.is_word("end", "else", "elseif", "until", "<end of file>", ";")
        values = [] if bare else self.expressions()
        self.take(";")
        found = Return(line, values)
        self.function.returns.append(found)
        return found

    def assignment(self) -> Statement:
        line = self.word.line
        targets = [self.suffixed()]
        while self.take(","):
            targets.append(self.suffixed())
        if self.take("="):
            return Assign(line, targets, self.expressions())
        if not isinstance(targets[0], Call | Method) or len(targets) > 1:
            self.fail("= expected")
        return Evaluate(line, targets[0])

    # Expressions

    def expressions(self) -> list[Expression]:
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        return found

    def expression(self, least: int = 0) -> Expression:
        left = self.operand()
        while (power := POWERS.get(self.word.text)) and self.word.kind != "string":
            if power[0] <= least:
                break
            operator = self.next()
            right = self.expression(power[1])
            if operator.text in ("and", "or", "..", "+"):
                left = Operation(operator.line, operator.text, left, right)
            else:
                left = Anything(operator.line, [left, right])
        return left

    def operand(self) -> Expression:
        line = self.word.line
        if self.take("#"):
            return Length(line, self.expression(UNARY_POWER))
        if self.take("-") or self.take("not"):
            return Anything(line, [self.expression(UNARY_POWER)])
        return self.simple()

    def simple(self) -> Expression:
        """A literal, a function, a table, or a name with its suffixes."""
        word = self.word
        if word.kind in ("number", "string") or word.text in ("nil", "false", "true", "..."):
            return self.literal(self.next())
        if self.take("function"):
            return self.body_of("function", word.line)
        return self.table() if self.is_word("{") else self.suffixed()

    def literal(self, word: Token) -> Expression:
        """The expression of one literal token."""
        if word.kind == "string":
            return String(word.line, unquoted(word.text))
        if word.kind == "number":
            return Number(word.line, number(word.text))
        if word.text == "...":
            return Rest(word.line, self.function)
        return Anything(word.line, []) if word.text == "true" else Nothing(word.line)

    def suffixed(self) -> Expression:
        """A name or a parenthesis with its suffixes: fields, indexes, calls."""
        line = self.word.line
        if self.take("("):
            found: Expression = Paren(line, self.expression())
            self.expect(")")
        else:
            name = self.identifier()
            found = Name(line, name, self.resolve(name))
        while True:
            line = self.word.line
            if self.take("."):
                found = Index(line, found, String(line, self.identifier()))
            elif self.take("["):
                found = Index(line, found, self.expression())
                self.expect("]")
            elif self.take(":"):
                self.identifier()
                found = Method(line, found, self.arguments())
            elif self.is_word("(", "{") or self.word.kind == "string":
                found = Call(line, found, self.arguments())
            else:
                return found

    def arguments(self) -> list[Expression]:
        if not self.take("("):
            return [self.simple()]
        found = [] if self.is_word(")") else self.expressions()
        self.expect(")")
        return found

    def table(self) -> Expression:
        found = Table(self.next().line, [], [])
        while not self.take("}"):
            if self.take("["):
                key = self.expression()
                self.expect("]")
                self.expect("=")
                found.fields.append((key, self.expression()))
            elif self.word.kind == "name" and self.words[self.at + 1].text == "=":
                key = String(self.word.line, self.identifier())
                self.expect("=")
                found.fields.append((key, self.expression()))
            else:
                found.items.append(self.expression())
            if not (self.take(",") or self.take(";") or self.is_word("}")):
                self.fail("} expected")
        return found

    def body_of(self, name: str, line: int) -> Function:
        """A function, from its parameter list on."""
        function = Function(line, name, outer=self.function)
        self.function = function
        self.scopes.append({})
        self.expect("(")
        while not self.take(")"):
            if not self.take("..."):
                function.parameters.append(self.declare(self.identifier()))
            self.take(",")
        function.body = self.block("end")
        self.expect("end")
        self.scopes.pop()
        self.function = function.outer or function
        return function
