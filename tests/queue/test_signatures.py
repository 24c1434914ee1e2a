"""Signatures of handlers: arguments go through JSON and are converted to their types."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NoReturn, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from rqueue import Context, Queue, TaskId, depends
from rqueue.errors import ConfigError, InvalidTask
from rqueue.handlers import TaskFunction

T = TypeVar("T")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ULID = TaskId.from_ulid("01K00000000000000000000000")


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Unit(StrEnum):
    EURO = "EUR"


@dataclass
class Point:
    x: int
    y: int = 0
    seen: list[datetime] = field(default_factory=list)


ORIGIN = Point(0)


class Order(BaseModel):
    number: int
    lines: list[Line] = []


class Line(BaseModel):
    article: str
    price: Decimal


class Express(Order):
    hours: int = 24


class Page(BaseModel, Generic[T]):
    items: list[T]


class Options(TypedDict, total=False):
    depth: int


class Pair(NamedTuple):
    left: int
    right: str


def one(kind: Any) -> Callable[..., None]:
    """Returns a handler with one parameter of this type."""

    def handler(value: Any) -> None: ...

    handler.__annotations__["value"] = kind
    return handler


def registered(function: Any) -> TaskFunction[Any, Any]:
    return Queue("q", url="redis://localhost:1").task("job")(function)


def there_and_back(function: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    handler = registered(function).handler
    return handler.arguments_of(json.loads(json.dumps(handler.parts_of(*args, **kwargs)[0])))


KINDS: list[tuple[Any, Any]] = [
    (int, 3),
    (float, 2.5),
    (bool, True),
    (str, "ä"),
    (bytes, b"plain text"),
    (datetime, NOON),
    (date, date(2026, 1, 2)),
    (time, time(12, 30)),
    (timedelta, timedelta(days=1, seconds=3)),
    (Decimal, Decimal("1.10")),
    (UUID, UUID(int=7)),
    (Path, Path("a/b.png")),
    (Colour, Colour.RED),
    (Size, Size.SMALL),
    (Unit, Unit.EURO),
    (Literal["a", "b"], "b"),
    (int | None, None),
    (int | None, 3),
    (int | str, "3"),
    (Order | Point, Point(1)),
    (Annotated[int, Field(gt=0)], 1),
    (list[int], [1]),
    (Sequence[int], [1, 2]),
    (set[int], {1, 2}),
    (frozenset[Colour], frozenset({Colour.RED})),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2)),
    (dict[int, Colour], {1: Colour.RED}),
    (Point, Point(1, seen=[NOON])),
    (Order, Order(number=1, lines=[Line(article="a", price=Decimal("1.1"))])),
    (Page[Order], Page[Order](items=[Order(number=1)])),
    (Options, {"depth": 1}),
    (Pair, Pair(1, "a")),
    (Any, {"free": [1, None]}),
    ("Order", Order(number=2)),
]


@pytest.mark.parametrize(("kind", "value"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_a_value_is_received_as_it_was_sent(kind: Any, value: Any) -> None:
    found = there_and_back(one(kind), value)["value"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (str, ULID, str(ULID)),
        (int, True, 1),
        (int, Size.SMALL, 1),
        (float, 1, 1.0),
        (Colour, "red", Colour.RED),
        (Order, {"number": 1}, Order(number=1)),
        (Order, Express(number=1), Order(number=1)),
        (Any, NOON, "2026-01-02T12:00:00Z"),
        (Any, Point(1), {"x": 1, "y": 0, "seen": []}),
    ],
)
def test_a_convertible_value_is_converted_to_the_type(kind: Any, value: Any, found: Any) -> None:
    assert there_and_back(one(kind), value) == {"value": found}


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        (int, "many", "arguments.value"),
        (int, None, "arguments.value"),
        (Annotated[int, Field(gt=0)], 0, "arguments.value"),
        (Literal["a"], "b", "arguments.value"),
        (Colour, "blue", "arguments.value"),
        (list[int], [1, "b"], "arguments.value[1]"),
        (Order, {"number": 1, "lines": [{"article": "a"}]}, "arguments.value.lines[0].price"),
        (bytes, b"\xff\x00", "arguments.value"),
        (Any, object(), "arguments.value"),
        (Any, {"deep": [object()]}, "arguments.value"),
        (Callable[[], None], print, "arguments.value"),
        (Point, Point("far"), "arguments.value"),  # type: ignore[arg-type]
        (Order, Order.model_construct(number="many"), "arguments.value"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_the_parameter(
    kind: Any, value: Any, field: str
) -> None:
    with pytest.raises(InvalidTask) as caught:
        there_and_back(one(kind), value)

    assert caught.value.field == field


def test_of_several_arguments_the_one_that_cannot_be_sent_is_named() -> None:
    def handler(a: int, b: Any, c: Any) -> None: ...

    with pytest.raises(InvalidTask, match=r"^arguments\.b: cannot be written as JSON"):
        there_and_back(handler, 1, object(), c=2)


def test_an_argument_with_a_default_need_not_be_sent() -> None:
    def handler(a: int, /, *, b: Point = ORIGIN) -> None: ...

    def other(a: int, b: Point = ORIGIN, *, c: Colour = Colour.RED) -> None: ...

    assert there_and_back(other, 1) == {"a": 1}
    assert there_and_back(other, 1, c=Colour.RED) == {"a": 1, "c": Colour.RED}
    with pytest.raises(ConfigError, match="parameter a must not be positional-only"):
        registered(handler)


class Service:
    """A callable object with an attribute."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    async def __call__(self, ctx: Context, n: int) -> int:
        return n * self.factor

    def twice(self, n: int, path: Path = Path()) -> int:
        return 2 * n

    @classmethod
    def made(cls, n: int) -> int:
        return n

    @staticmethod
    async def plain(n: int) -> int:
        return n


async def scaled(ctx: Context, n: int, factor: int) -> int:
    return n * factor


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return run


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (Service(2), "async"),
        (Service(2).twice, "thread"),
        (Service.made, "thread"),
        (Service.plain, "async"),
        (functools.partial(scaled, factor=3), "async"),
        (functools.partial(functools.partial(scaled), factor=3), "async"),
        (functools.partial(Service(2).twice, path=Path("a")), "thread"),
        (functools.partial(Service(2)), "async"),
        (logged(scaled), "async"),
        (lambda n: n, "thread"),
    ],
    ids=range(10),
)
def test_any_callable_may_be_a_handler(function: Any, kind: str) -> None:
    handler = registered(function).handler
    extra = {"factor": 1} if "factor" in handler.required else {}

    assert handler.kind == kind
    assert handler.parts_of(7, **extra)[0] == {"n": 7, **extra}
    assert handler.arguments_of({"n": 7, **extra}) == {"n": 7, **extra}


def test_one_function_may_handle_two_types() -> None:
    queue = Queue("q", url="redis://localhost:1")

    @queue.task("new", priority=3)
    @queue.task("old")
    def handler(n: int) -> None: ...

    assert handler.call(1).type == "new"
    assert [one.function for one in queue._internals.registry.handlers.values()] == [
        handler.handler.function
    ] * 2


def in_euro() -> str:
    return "EUR"


def test_the_context_and_dependencies_are_recognised_by_their_types() -> None:
    def first(ctx: Context, n: int) -> None: ...

    def last(n: int, ctx: Context | None = None) -> None: ...

    def beside(n: int, ctx: Annotated[Context, "mine"], unit: str = depends(in_euro)) -> None: ...

    def annotated(n: int, ctx: Context | None, unit: Annotated[str, depends(in_euro)]) -> None: ...

    for function in (first, last, beside, annotated):
        handler = registered(function).handler
        assert (handler.context, list(handler.sent.parameters)) == ("ctx", ["n"])
        assert list(handler.dependencies) in ([], ["unit"])


def many(*paths: str) -> None: ...
def named(**paths: str) -> None: ...
def walks(n: int) -> Iterator[int]:
    yield n


async def walks_slowly(n: int) -> Any:
    yield n


def ends() -> NoReturn:
    raise SystemExit


def unknown(n: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unchecked(n: Service) -> None: ...


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (many, "parameter paths"),
        (named, "parameter paths"),
        (walks, "use return"),
        (walks_slowly, "use return"),
        (ends, "NoReturn"),
        (unknown, "import it in the handler.s module"),
        (unchecked, "Service"),
    ],
)
def test_an_unusable_handler_is_refused_by_the_decorator(function: Any, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        registered(function)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (Order, Order(number=1), b'{"number":1,"lines":[]}'),
        (Page[int], {"items": ["1"]}, b'{"items":[1]}'),
        (Point, Point(1), b'{"x":1,"y":0,"seen":[]}'),
        (Colour, Colour.RED, b'"red"'),
        (datetime, NOON, b'"2026-01-02T12:00:00Z"'),
        (set[int], {1}, b"[1]"),
        (int | None, None, b"null"),
        (None, None, b""),
        (Any, (1, {"a": Path("b")}), b'[1,{"a":"b"}]'),
    ],
)
def test_a_result_is_stored_by_its_type(kind: Any, value: Any, stored: bytes) -> None:
    def handler() -> Any: ...

    handler.__annotations__["return"] = kind

    assert registered(handler).handler.encoded(value, 1000) == stored
