"""A queue has exactly the public names that the pages document."""

from __future__ import annotations

from pathlib import Path

import pytest

from rqueue import Queue
from rqueue.errors import ConfigError

QUEUE = frozenset({
    "name", "settings", "task", "use", "lifespan", "judge", "call", "enqueue", "enqueue_many",
    "enqueue_document", "dag", "claim", "lease", "get", "handle", "find", "counts", "cancel",
    "set_priority", "reschedule", "run_now", "edit", "pause", "resume", "purge", "why", "explain",
    "events", "worker", "scheduler", "sync", "aclose",
})  # fmt: skip
NAMESPACES = {
    "dags": (
        "submit", "chain", "group", "chord", "get", "list", "status", "show", "cancel", "pause",
        "resume", "retry", "set_budget", "id_of",
    ),
    "dead": (
        "list", "clusters", "retry", "edit", "discard", "decide", "decide_many", "reviews",
    ),
    "limits": ("breakers", "open_breaker", "close_breaker", "slowdowns", "lift_slowdown"),
    "budgets": ("list", "set"),
    "fleet": ("workers", "drain"),
    "roles": ("list", "set", "drop"),
    "notices": ("sinks",),
    "archive": (
        "get", "lives", "search", "count", "spend", "events", "metrics", "embeddings", "prune",
        "restore", "restore_dag", "verify", "leave",
    ),
    "artifacts": ("put", "info", "get", "open", "save", "list", "delete", "sweep"),
}  # fmt: skip
PAGE = Path(__file__).parent.parent.parent / "docs" / "guides" / "tasks.md"


@pytest.fixture
def queue() -> Queue:
    return Queue("face", url="redis://nowhere")


def public(found: object) -> set[str]:
    return {name for name in dir(found) if not name.startswith("_")}


def test_a_queue_has_these_names_and_these_namespaces(queue: Queue) -> None:
    assert public(queue) == QUEUE | NAMESPACES.keys()


def test_the_blocking_queue_has_the_same(queue: Queue) -> None:
    assert public(queue.sync) == QUEUE | NAMESPACES.keys()


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_has_these_calls_blocking_ones_too(queue: Queue, name: str) -> None:
    assert public(getattr(queue, name)) == set(NAMESPACES[name])
    assert public(getattr(queue.sync, name)) == set(NAMESPACES[name])


@pytest.mark.parametrize("name", NAMESPACES)
def test_the_page_names_all_calls_of_a_namespace(name: str) -> None:
    calls = ", ".join(f"`{call}`" for call in NAMESPACES[name])

    assert f"| `queue.{name}` | {calls} |" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("name", NAMESPACES)
def test_no_name_repeats_the_name_of_its_namespace(name: str) -> None:
    """`queue.dags.cancel`, not `queue.dags.cancel_dag`."""
    noun = name.removesuffix("s")

    assert not [call for call in NAMESPACES[name] if noun in call.split("_")]


def test_a_queue_without_an_archive_has_the_namespace_and_its_calls_raise(
    queue: Queue,
) -> None:
    with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL"):
        queue.sync.archive.count()
    with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL"):
        queue.sync.archive.verify()
