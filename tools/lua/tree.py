"""The syntax tree of a Lua file.

A local refers to its declaration, so readers of the tree need no scopes. Of unary operators,
arithmetic and comparisons only the operands are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Node:
    """A node of the tree; nodes are compared by identity."""

    line: int


@dataclass(slots=True, eq=False)
class Local:
    """The declaration of a local variable, and the function that it belongs to."""

    name: str
    function: Function


@dataclass(slots=True, eq=False)
class String(Node):
    text: str


@dataclass(slots=True, eq=False)
class Number(Node):
    value: float


@dataclass(slots=True, eq=False)
class Nothing(Node):
    """nil or false."""


@dataclass(slots=True, eq=False)
class Anything(Node):
    """A value that is not evaluated: true, arithmetic, a comparison."""

    operands: list[Expression]


@dataclass(slots=True, eq=False)
class Rest(Node):
    """`...`"""

    function: Function


@dataclass(slots=True, eq=False)
class Name(Node):
    """A local, or a global where there is no declaration."""

    name: str
    local: Local | None


@dataclass(slots=True, eq=False)
class Index(Node):
    object: Expression
    key: Expression


@dataclass(slots=True, eq=False)
class Call(Node):
    function: Expression
    arguments: list[Expression]


@dataclass(slots=True, eq=False)
class Method(Node):
    object: Expression
    arguments: list[Expression]


@dataclass(slots=True, eq=False)
class Paren(Node):
    """An expression in parentheses: only the first of several values."""

    inner: Expression


@dataclass(slots=True, eq=False)
class Operation(Node):
    """`and`, `or`, `..`, `+`, or `#` of one operand."""

    operator: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Length(Node):
    operand: Expression


@dataclass(slots=True, eq=False)
class Table(Node):
    """A constructor: fields with keys, and items without."""

    fields: list[tuple[Expression, Expression]]
    items: list[Expression]


@dataclass(slots=True, eq=False)
class Function(Node):
    name: str
    parameters: list[Local] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    outer: Function | None = None


@dataclass(slots=True, eq=False)
class Assign(Node):
    """Also a `local`, whose targets are names."""

    targets: list[Expression]
    values: list[Expression]


@dataclass(slots=True, eq=False)
class Evaluate(Node):
    """A call for its effect, or the condition of a loop."""

    value: Expression


@dataclass(slots=True, eq=False)
class Block(Node):
    """Statements that may run, any number of times."""

    body: list[Statement]


@dataclass(slots=True, eq=False)
class ForIn(Node):
    names: list[Local]
    values: list[Expression]
    body: list[Statement]


@dataclass(slots=True, eq=False)
class ForNumber(Node):
    name: Local
    bounds: list[Expression]
    body: list[Statement]


@dataclass(slots=True, eq=False)
class If(Node):
    branches: list[tuple[Expression, list[Statement]]]
    otherwise: list[Statement]


@dataclass(slots=True, eq=False)
class Return(Node):
    values: list[Expression]


Expression = (
    String | Number | Nothing | Anything | Rest | Name | Index | Call | Method | Paren | Operation
    | Length | Table | Function
)  # fmt: skip
Statement = Assign | Evaluate | Block | ForIn | ForNumber | If | Return
