"""`rqueue worker --queue`: names, weights, and whose handlers serve them."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from rqueue import Queue
from rqueue.cli.processes.serving import served
from rqueue.errors import ConfigError

URL = "redis://127.0.0.1:1"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An application with a queue for its handlers, and another with handlers of its own."""
    made = ModuleType("some_shop")
    made.queue = Queue("shop", url=URL, lease_sec=7)  # type: ignore[attr-defined]
    made.mails = Queue("mails", url=URL)  # type: ignore[attr-defined]
    made.queue.task("pack")(pack)
    made.mails.task("send")(pack)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def pack() -> None:
    """A handler."""


def test_without_names_it_is_the_applications_own_queue(module: ModuleType) -> None:
    found = served(module.queue, module.__name__, [], 5)

    assert (found.queues, found.shared_slots.size) == ([module.queue], 5)


def test_a_name_alone_is_served_by_the_applications_handlers(module: ModuleType) -> None:
    found = served(module.queue, module.__name__, ["urgent", "shop"], 5)

    urgent = found.queues[0]
    assert found.names == "urgent,shop"
    assert urgent._internals.registry is module.queue._internals.registry
    assert urgent.settings.lease_sec == 7
    assert urgent._internals.runtime.connection is module.queue._internals.runtime.connection
    assert found.queues[1] is module.queue
    assert [share.weight for share in found.shared_slots.shares] == [0, 0]


def test_a_queue_with_handlers_of_its_own_keeps_them(module: ModuleType) -> None:
    found = served(module.queue, module.__name__, ["mails:2", "shop:1"], 5)

    assert found.queues == [module.mails, module.queue]
    assert [share.weight for share in found.shared_slots.shares] == [2, 1]


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        (["a:5", "b"], "give all of them a weight"),
        (["a:0"], "from 1 to 1000"),
        (["a:x"], "from 1 to 1000"),
        (["a:1001"], "from 1 to 1000"),
        (["a", "a"], "twice"),
        (["a b"], "letters, digits"),
        ([""], "letters, digits"),
    ],
)
def test_what_is_wrong_with_the_names_is_told(
    module: ModuleType, wanted: list[str], rule: str
) -> None:
    with pytest.raises(ConfigError, match=rule):
        served(module.queue, module.__name__, wanted, 5)
