"""A handler's signature defines the arguments and the result of its tasks."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from rqueue.errors import ConfigError, InvalidTask
from rqueue.middleware import depends
from rqueue.task.ids import TaskId
from rqueue.task.task import Task
from rqueue.worker.context import Context
from rqueue.worker.handler import Handler, Registry, kind_of


class Order(BaseModel):
    number: int
    day: date


def a_handler(function: Any, **options: Any) -> Handler:
    return Handler("job", function, kind_of(function, None), **options)


def typed(ctx: Context, path: str, width: int = 800) -> str:
    return path


def shown(id: TaskId) -> Task:
    raise NotImplementedError


def test_arguments_become_a_payload_by_their_names() -> None:
    handler = a_handler(typed)

    assert handler.parts_of("a.png")[0] == {"path": "a.png"}
    assert handler.parts_of("a.png", width=4)[0] == {"path": "a.png", "width": 4}
    assert handler.arguments_of({"path": "a.png", "width": "4"}) == {"path": "a.png", "width": 4}


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        ((), {}, "missing a required argument"),
        (("a",), {"widht": 1}, "widht"),
        ((3,), {}, r"arguments\.path"),
        (("a",), {"width": "wide"}, r"arguments\.width"),
        (("a", 1, 2), {}, "too many"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    args: tuple[Any, ...], kwargs: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidTask, match=what):
        a_handler(typed).parts_of(*args, **kwargs)[0]


def test_a_payload_with_more_than_the_signature_is_refused() -> None:
    with pytest.raises(InvalidTask, match="colour"):
        a_handler(typed).arguments_of({"path": "a", "colour": "red"})


def test_models_and_dates_are_encoded_as_json() -> None:
    def ship(order: Order) -> Order:
        return order

    handler = Handler("ship", ship, "thread")
    order = Order(number=1, day=date(2026, 1, 2))

    payload = handler.parts_of(order)[0]

    assert payload == {"order": {"number": 1, "day": "2026-01-02"}}
    assert handler.arguments_of(payload) == {"order": order}
    assert handler.encoded(order, 1000) == b'{"number":1,"day":"2026-01-02"}'


def test_a_model_with_deferred_build_can_be_a_result_type() -> None:
    class Late(Order, defer_build=True):
        pass

    def ship(order: Order) -> Late:
        return Late(number=order.number, day=order.day)

    ship.__annotations__["return"] = Late
    handler = Handler("ship", ship, "thread")

    # Registered before the first of them is made.
    written = handler.written
    late = ship(Order(number=1, day=date(2026, 1, 2)))

    assert written.to_json(late) == b'{"number":1,"day":"2026-01-02"}'
    Registry().add(Handler("look", shown, "thread"))


def test_a_single_parameter_takes_a_payload_that_is_not_an_object() -> None:
    def one(n: int) -> None: ...

    assert a_handler(one).arguments_of(5) == {"n": 5}


def test_context_and_dependencies_are_not_sent() -> None:
    def connect() -> str:
        return "db"

    def work(ctx: Context, n: int, db: str = depends(connect)) -> None: ...

    handler = a_handler(work)

    assert list(handler.sent.parameters) == ["n"]
    assert (handler.context, list(handler.dependencies)) == ("ctx", ["db"])


def test_a_result_must_have_the_declared_type() -> None:
    handler = a_handler(typed)

    assert handler.encoded("b.png", 1000) == b'"b.png"'
    with pytest.raises(InvalidTask, match="promises"):
        handler.encoded(7, 1000)
    with pytest.raises(InvalidTask, match="bytes"):
        handler.encoded("x" * 2000, 1000)


def test_a_none_result_is_stored_as_an_empty_value() -> None:
    def silent() -> None: ...

    assert a_handler(silent).encoded(None, 1000) == b""


def test_a_type_has_one_handler_and_a_valid_name() -> None:
    registry = Registry()
    registry.add(a_handler(typed))

    registry.add(a_handler(typed))
    with pytest.raises(ConfigError, match="already has a handler"):
        registry.add(a_handler(lambda: None))
    with pytest.raises(ConfigError, match="task type"):
        registry.add(Handler("no good", typed, "thread"))


def test_an_invalid_signature_is_refused_at_registration() -> None:
    def many(*paths: str) -> None: ...

    def unknown(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="paths"):
        Registry().add(a_handler(many))
    with pytest.raises(ConfigError, match="Missing"):
        Registry().add(a_handler(unknown))


def test_an_unknown_kind_or_ack_is_refused() -> None:
    odd: Any = "proces"
    with pytest.raises(ConfigError, match="kind: is one of async, thread, process, not 'proces'"):
        kind_of(typed, odd)
    with pytest.raises(ConfigError, match="ack: is one of after, before, not 'befor'"):
        Registry().add(a_handler(typed, ack="befor"))


def test_coroutines_run_on_the_loop_and_others_in_a_thread() -> None:
    async def on_loop() -> None: ...

    assert kind_of(on_loop, None) == "async"
    assert kind_of(typed, None) == "thread"
    with pytest.raises(ConfigError, match="async def"):
        kind_of(typed, "async")
