"""Abstract interpretation of Lua code: which functions a move calls, and with which keys it sends
commands.

A variable has all values that are ever assigned to it, in any order. A function is evaluated
separately for each chain of its last DEPTH calls, so that a helper which gets a key as argument has
only the keys of that caller. Functions are evaluated again until nothing changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tools.lua import tree
from tools.lua.libraries import HANDLERS, LIBRARIES, opaque
from tools.lua.values import (
    ANY_KEY,
    NOTHING,
    SOMETHING,
    UNKNOWN,
    Builtin,
    Cell,
    Closure,
    Several,
    Table,
    Text,
    Value,
    Values,
    bounded,
    concatenated,
    is_late,
    literal,
    literals,
    together,
)

# How many calls distinguish two uses of a function.
DEPTH = 2
NONE: Mapping[str, Value] = {}


@dataclass(slots=True)
class Frame:
    """A function, evaluated for one chain of calls."""

    number: int
    function: tree.Function
    outer: Frame | None
    calls: tuple[tree.Call, ...]
    file: str
    locals: dict[tree.Local, Cell] = field(default_factory=lambda: defaultdict(Cell))
    extra: Cell = field(default_factory=Cell)
    results: list[Cell] = field(default_factory=list)
    more: Cell = field(default_factory=Cell)
    callees: set[int] = field(default_factory=set)


class Sent(NamedTuple):
    """A call of redis.call or redis.pcall: its place, and the values of its words."""

    frame: Frame
    line: int
    words: Several


class Interpreter:
    """All files of a library, and the values of every variable in them."""

    def __init__(self, modules: Mapping[str, tuple[str, tree.Function]]) -> None:
        """Modules by name, each with its file."""
        self.frames: list[Frame] = []
        self.known: dict[tuple[Any, ...], Frame] = {}
        self.tables: dict[tree.Table, Table] = {}
        self.waiting: dict[int, None] = {}
        self.sent: dict[tuple[int, tree.Call], Sent] = {}
        self.problems: dict[tuple[int, int], str] = {}
        self.modules = {name: Table() for name in modules}
        self.globals: dict[int, Mapping[str, Value]] = {}
        self.current = Frame(-1, tree.Function(0, ""), None, (), "")
        for file, function in modules.values():
            self.chunk(file, function)

    def chunk(self, file: str, function: tree.Function, own: Mapping[str, Value] = NONE) -> Frame:
        """Adds a file that is evaluated from its first line, with globals of its own."""
        frame = self.frame(function, None, (), file)
        self.globals[frame.number] = own
        return frame

    def settle(self) -> None:
        """Evaluates functions until nothing changes."""
        while self.waiting:
            # The one that has waited longest: its callees are most likely evaluated by then.
            number = next(iter(self.waiting))
            del self.waiting[number]
            self.current = self.frames[number]
            self.block(self.current.function.body)

    def reached(self, start: Frame) -> list[Frame]:
        """A frame and all frames that it calls, directly or not."""
        seen, stack = {start.number}, [start.number]
        while stack:
            for callee in self.frames[stack.pop()].callees - seen:
                seen.add(callee)
                stack.append(callee)
        return [self.frames[number] for number in sorted(seen)]

    # Frames and cells

    def frame(
        self,
        function: tree.Function,
        outer: Frame | None,
        calls: tuple[tree.Call, ...],
        file: str,
    ) -> Frame:
        key = (function, outer.number if outer else -1, calls)
        if key not in self.known:
            frame = Frame(len(self.frames), function, outer, calls, file)
            frame.results = [Cell() for _ in range(results(function))]
            self.known[key] = frame
            self.frames.append(frame)
            self.waiting[frame.number] = None
        return self.known[key]

    def read(self, cell: Cell) -> Values:
        """The values of a variable. The current function is evaluated again when there are more."""
        cell.readers.add(self.current.number)
        return cell.values

    def add(self, cell: Cell, values: Values) -> None:
        """Adds values to a variable."""
        if not values <= cell.values:
            after = bounded(cell.values | values)
            if after != cell.values:
                cell.values = after
                self.waiting.update(dict.fromkeys(cell.readers))

    def cell(self, local: tree.Local) -> Cell:
        """A local variable of this function or of an enclosing one."""
        frame: Frame | None = self.current
        while frame is not None and frame.function is not local.function:
            frame = frame.outer
        assert frame is not None, local.name
        return frame.locals[local]

    def record(self, node: tree.Call, words: Several) -> None:
        """Records a command with these words."""
        self.sent[self.current.number, node] = Sent(self.current, node.line, words)

    def problem(self, line: int, why: str) -> None:
        self.problems[self.current.number, line] = f"{self.current.file}:{line}: {why}"

    # Statements

    def block(self, body: Iterable[tree.Statement]) -> None:
        for one in body:
            STATEMENTS[type(one)](self, one)

    def assign(self, node: tree.Assign) -> None:
        found = self.several(node.values)
        for at, target in enumerate(node.targets):
            self.store(target, found.at(at))

    def store(self, target: tree.Expression, values: Values) -> None:
        """Assigns values to the left side of a `=`."""
        if isinstance(target, tree.Name) and target.local is not None:
            self.add(self.cell(target.local), values)
        elif isinstance(target, tree.Index):
            keys = self.keys(target.key)
            for table in self.value(target.object):
                if isinstance(table, Table):
                    self.put(table, target.key, keys, values)
        else:
            self.problem(target.line, "sets a global")

    def keys(self, node: tree.Expression) -> Values:
        """The values of an index; a position is a text with the prefix `#`."""
        if isinstance(node, tree.Number):
            return frozenset({literal(f"#{node.value:.0f}")})
        return self.value(node)

    def put(self, table: Table, key: tree.Expression, keys: Values, values: Values) -> None:
        """Sets values of a table."""
        names = literals(keys)
        if names is not None:
            for name in names:
                self.put_named(table, name, values)
        elif is_behind(key, table.items):
            self.add(table.behind, values)
        else:
            self.add(table.anywhere, values)
            self.add(table.named, frozenset(one for one in keys if isinstance(one, Text)))

    def put_named(self, table: Table, name: str, values: Values) -> None:
        """Sets a field."""
        if name not in table.fields:
            table.fields[name] = Cell()
            self.waiting.update(dict.fromkeys(table.readers))
        self.add(table.fields[name], values)

    def evaluate(self, node: tree.Evaluate) -> None:
        self.value(node.value)

    def grouped(self, node: tree.Block) -> None:
        self.block(node.body)

    def chosen(self, node: tree.If) -> None:
        for condition, body in node.branches:
            self.value(condition)
            self.block(body)
        self.block(node.otherwise)

    def counted(self, node: tree.ForNumber) -> None:
        self.several(node.bounds)
        self.add(self.cell(node.name), SOMETHING)
        self.block(node.body)

    def iterated(self, node: tree.ForIn) -> None:
        found = self.several(node.values)
        for at, name in enumerate(node.names):
            self.add(self.cell(name), found.at(at))
        self.block(node.body)

    def returned(self, node: tree.Return) -> None:
        found = self.several(node.values)
        cells = self.current.results
        for at, cell in enumerate(cells):
            self.add(cell, found.at(at))
        self.add(self.current.more, found.rest.union(*found.front[len(cells) :]))

    # Expressions

    def several(self, nodes: list[tree.Expression]) -> Several:
        """The values of a list; only its last expression may have several."""
        front, rest = [], NOTHING
        for node in nodes:
            if node is nodes[-1] and isinstance(node, tree.Call | tree.Rest):
                last = self.call(node) if isinstance(node, tree.Call) else self.extra(node)
                front += last.front
                rest = last.rest
            else:
                front.append(self.value(node))
        return Several(front, rest)

    def value(self, node: tree.Expression) -> Values:
        """The values that an expression may have."""
        return EXPRESSIONS[type(node)](self, node)

    def first(self, node: tree.Call) -> Values:
        return self.call(node).at(0)

    def extra(self, node: tree.Rest) -> Several:
        return Several([], self.read(self.current.extra))

    def first_extra(self, node: tree.Rest) -> Values:
        return self.extra(node).rest

    def name(self, node: tree.Name) -> Values:
        if node.local is not None:
            return self.read(self.cell(node.local))
        own = self.globals[self.outermost()]
        if node.name in own:
            return frozenset({own[node.name]})
        if node.name in self.modules:
            return frozenset({self.modules[node.name]})
        if node.name not in LIBRARIES:
            self.problem(node.line, f"reads {node.name}, which is not defined")
        return frozenset({Builtin(node.name)})

    def outermost(self) -> int:
        frame = self.current
        while frame.outer is not None:
            frame = frame.outer
        return frame.number

    def index(self, node: tree.Index) -> Values:
        found: set[Value] = set()
        names = literals(self.keys(node.key))
        for one in self.value(node.object):
            if isinstance(one, Table):
                found |= self.contents(one) if names is None else self.get(one, names)
            elif isinstance(one, Builtin) and names:
                found.add(member(one.name, names[0]))
            else:
                found.add(one if one == ANY_KEY else UNKNOWN)
        return frozenset(found)

    def get(self, table: Table, names: list[str]) -> Values:
        """The values of a table under these names."""
        found = self.read(table.anywhere)
        for name in names:
            cell = table.fields.get(name)
            if cell is not None:
                found |= self.read(cell)
            else:
                table.readers.add(self.current.number)
            if is_late(name, table):
                found |= self.read(table.behind)
        return found

    def contents(self, table: Table) -> Values:
        """All values of a table; of KEYS or ARGV, those without a name."""
        found = self.read(table.behind)
        if table.arguments:
            return found
        fields = [table.fields[name] for name in self.names(table)]
        return found.union(self.read(table.anywhere), *map(self.read, fields))

    def names(self, table: Table) -> list[str]:
        """The fields of a table."""
        table.readers.add(self.current.number)
        return list(table.fields)

    def table(self, node: tree.Table) -> Values:
        table = self.tables.setdefault(node, Table(len(node.items)))
        for key, value in node.fields:
            self.put(table, key, self.keys(key), self.value(value))
        found = self.several(node.items)
        for at, values in enumerate(found.front, 1):
            self.put_named(table, f"#{at}", values)
        self.add(table.behind, found.rest)
        return frozenset({table})

    def function(self, node: tree.Function) -> Values:
        return frozenset({Closure(node, self.current.number)})

    def operation(self, node: tree.Operation) -> Values:
        left, right = self.value(node.left), self.value(node.right)
        match node.operator:
            case "and":
                return right
            case "or":
                return left | right
            case "..":
                return concatenated(left, right)
        return SOMETHING

    def anything(self, node: tree.Anything) -> Values:
        for one in node.operands:
            self.value(one)
        return SOMETHING

    def length(self, node: tree.Length) -> Values:
        self.value(node.operand)
        return SOMETHING

    def method(self, node: tree.Method) -> Values:
        self.value(node.object)
        self.several(node.arguments)
        return SOMETHING

    def paren(self, node: tree.Paren) -> Values:
        return self.value(node.inner)

    def string(self, node: tree.String) -> Values:
        return frozenset({literal(node.text)})

    def number(self, node: tree.Number) -> Values:
        return SOMETHING

    def nothing(self, node: tree.Nothing) -> Values:
        return NOTHING

    # Calls

    def call(self, node: tree.Call) -> Several:
        functions = self.value(node.function)
        words = self.several(node.arguments)
        found = [self.apply(one, node, words) for one in functions]
        return together(found)

    def apply(self, function: Value, node: tree.Call, words: Several) -> Several:
        if isinstance(function, Closure):
            return self.enter(function, node, words)
        if isinstance(function, Builtin):
            handler = HANDLERS.get(function.name, opaque)
            return handler(self, node, words)
        self.problem(node.line, "calls a value that is not a known function")
        return Several([], SOMETHING)

    def enter(self, closure: Closure, node: tree.Call, words: Several) -> Several:
        """Calls a Lua function: adds these values to its parameters."""
        function, maker = closure.function, self.frames[closure.made_in]
        calls = (*self.current.calls, node)[-DEPTH:]
        callee = self.frame(function, maker, calls, maker.file)
        self.current.callees.add(callee.number)
        for at, parameter in enumerate(function.parameters):
            self.add(callee.locals[parameter], words.at(at))
        self.add(callee.extra, words.rest.union(*words.front[len(function.parameters) :]))
        return Several(list(map(self.read, callee.results)), self.read(callee.more))


def member(library: str, name: str) -> Value:
    """A function of a library of Lua or Redis; other members are unknown values."""
    is_function = "." not in library and (library, name) != ("math", "huge")
    return Builtin(f"{library}.{name}") if is_function else UNKNOWN


def is_behind(key: tree.Expression, items: int) -> bool:
    """Whether an index is after the items: `#list + 1`, or `i + items`."""
    if not isinstance(key, tree.Operation) or key.operator != "+":
        return False
    added = key.right.value if isinstance(key.right, tree.Number) else 0
    return added >= items or (isinstance(key.left, tree.Length) and added > 0)


def results(function: tree.Function) -> int:
    """How many results of a function are distinguished."""
    return max(map(width, function.returns), default=0)


def width(node: tree.Return) -> int:
    """The same of one return: a call at its end may have several."""
    more = 4 if node.values and isinstance(node.values[-1], tree.Call) else 0
    return len(node.values) + more


STATEMENTS: dict[type, Callable[[Interpreter, Any], None]] = {
    tree.Assign: Interpreter.assign,
    tree.Evaluate: Interpreter.evaluate,
    tree.Block: Interpreter.grouped,
    tree.If: Interpreter.chosen,
    tree.ForNumber: Interpreter.counted,
    tree.ForIn: Interpreter.iterated,
    tree.Return: Interpreter.returned,
}
EXPRESSIONS: dict[type, Callable[[Interpreter, Any], Values]] = {
    tree.String: Interpreter.string,
    tree.Number: Interpreter.number,
    tree.Nothing: Interpreter.nothing,
    tree.Anything: Interpreter.anything,
    tree.Rest: Interpreter.first_extra,
    tree.Name: Interpreter.name,
    tree.Index: Interpreter.index,
    tree.Call: Interpreter.first,
    tree.Method: Interpreter.method,
    tree.Paren: Interpreter.paren,
    tree.Operation: Interpreter.operation,
    tree.Length: Interpreter.length,
    tree.Table: Interpreter.table,
    tree.Function: Interpreter.function,
}
