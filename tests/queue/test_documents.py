"""The three document forms: accepted unchanged, and shown again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rqueue import Handle, State
from rqueue.errors import InvalidGraph
from rqueue.task.forms import view
from tests.harness import Harness

FIXTURES = Path(__file__).parent.parent / "fixtures"
FILES = {"A": "document_a.json", "B": "document_b.yaml", "C": "document_c.json"}
PARENTS = {
    "A": ["task-id-1", "task-id-2"],
    "B": ["task_01KGY7NCM0E008000000000100", "task_01KGY7NCM0E008000000000200"],
    "C": [],
}


def text_of(form: str) -> str:
    return (FIXTURES / FILES[form]).read_text("utf-8")


def document_of(form: str) -> dict[str, Any]:
    text = text_of(form)
    found: dict[str, Any] = yaml.safe_load(text) if form == "B" else json.loads(text)
    return found


async def with_parents(harness: Harness, form: str) -> list[Handle]:
    """Enqueues the dependencies of a document with the ids that it uses."""
    return [await harness.queue.enqueue("code", external_id=own) for own in PARENTS[form]]


@pytest.mark.parametrize("form", FILES)
async def test_a_document_is_accepted_unchanged(harness: Harness, form: str) -> None:
    parents = await with_parents(harness, form)

    from_text = await harness.queue.enqueue_document(text_of(form))

    task = await from_text.task()
    document = document_of(form).get("task") or document_of(form)
    assert (await harness.queue.get(document["id"])).id == from_text.id
    assert task.state is (State.PENDING if parents else State.READY)
    assert set(task.blocked_by) == {parent.id for parent in parents}


@pytest.mark.parametrize("form", ["A", "B"])
async def test_a_document_with_missing_dependencies_is_refused(harness: Harness, form: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        await harness.queue.enqueue_document(text_of(form))

    assert caught.value.path[-1] == PARENTS[form][0]
    assert await harness.dump() == {}


async def test_documents_of_all_forms_are_enqueued_in_one_call(harness: Harness) -> None:
    for form in FILES:
        await with_parents(harness, form)

    handles = await harness.queue.enqueue_many(
        [document_of("A"), document_of("B"), document_of("C"), {"type": "plain"}]
    )

    types = [(await handle.task()).type for handle in handles]
    assert types == ["eng-backend", "code", "generate_fitment", "plain"]


async def test_dependencies_may_be_in_the_same_call(harness: Harness) -> None:
    first, second = ({"task": {"id": own, "type": "code"}} for own in PARENTS["B"])

    handles = await harness.queue.enqueue_many([first, second, document_of("B")])

    task = await handles[-1].task()
    assert set(task.blocked_by) == {handles[0].id, handles[1].id}


async def test_document_a_is_read_into_the_model(harness: Harness) -> None:
    await with_parents(harness, "A")

    spec = (await (await harness.queue.enqueue_document(document_of("A"))).task()).spec

    assert (spec.type, spec.priority, spec.max_attempts) == ("eng-backend", 20, 3)
    assert (spec.timeout_sec, spec.payload) == (3600, document_of("A")["payload"])
    assert spec.retry is not None
    assert (spec.retry.initial_delay_sec, spec.retry.jitter_kind) == (60, "additive")
    assert spec.idempotency_key == document_of("A")["idempotencyKey"]


async def test_document_b_is_read_into_the_model(harness: Harness) -> None:
    await with_parents(harness, "B")

    spec = (await (await harness.queue.enqueue_document(document_of("B"))).task()).spec

    assert (spec.type, spec.title) == ("code", "Fix auth middleware CORS handling")
    assert spec.required_capabilities == ("code-execution", "web-search")
    assert (spec.max_cost_usd, spec.max_duration_sec, spec.priority) == (0.5, 300, 50)
    assert (spec.tags, spec.created_by) == (("repo:myapp", "sprint:12"), "agent:orchestrator")
    assert spec.retry is not None
    assert [str(reason) for reason in spec.retry.retry_on] == [
        "timeout", "crash", "rate_limit", "invalid_output",
    ]  # fmt: skip


async def test_document_c_is_read_into_the_model(harness: Harness) -> None:
    spec = (await (await harness.queue.enqueue_document(document_of("C"))).task()).spec

    assert (spec.type, spec.agent_name) == ("generate_fitment", "FitmentAgent")
    assert (spec.priority, spec.max_attempts) == (0, 3)
    assert spec.dag_id == "d9428888-122b-41e1-b85c-61c2b6a3f5d1"
    assert await harness.queue.claim(worker="w1") == []
    assert len(await harness.queue.claim(worker="w1", agents=["FitmentAgent"])) == 1


@pytest.mark.parametrize("form", FILES)
async def test_a_document_with_a_key_or_an_id_sent_twice_is_one_task(
    harness: Harness, form: str
) -> None:
    await with_parents(harness, form)

    first = await harness.queue.enqueue_document(document_of(form))
    second = await harness.queue.enqueue_document(document_of(form))

    assert (second.id, second.created) == (first.id, False)


@pytest.mark.parametrize("form", FILES)
async def test_every_field_of_a_document_is_shown_again(harness: Harness, form: str) -> None:
    await with_parents(harness, form)
    handle = await harness.queue.enqueue_document(text_of(form))

    shown = view(await handle.task(), form)  # type: ignore[arg-type]

    given = document_of(form)
    for path in said(given):
        assert at(shown, path) == at(given, path), path


# What the queue fills in by itself, or has a value for where the document has none.
KEPT = frozenset({"createdAt", "result", "created_at", "updated_at", "available_at", "blocked_by"})


def said(document: dict[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Returns the paths of all fields of a document."""
    found = []
    for name, value in document.items():
        if name in KEPT:
            continue
        if isinstance(value, dict) and name != "payload":
            found += said(value, (*before, name))
        else:
            found.append((*before, name))
    return found


def at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document[name]
    return document


async def test_one_task_is_shown_in_every_form(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1}, priority=20, max_attempts=4)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    running = await handle.task()

    a, b, c = view(running, "A"), view(running, "B")["task"], view(running, "C")
    native = view(running)

    assert isinstance(b, dict)
    assert (a["status"], b["status"], c["status"]) == ("in-progress", "running", "running")
    assert (a["priority"], b["priority"], c["priority"]) == (8, 20.0, 1)
    assert (a["maxRetries"], b["max_attempts"], c["max_attempts"]) == (4, 4, 4)
    assert (a["claimedBy"], b["claim"]["agent_id"], c["lease_owner"]) == ("w1",) * 3  # type: ignore[index, call-overload]
    assert a["id"] == c["id"] == str(handle.id.uuid)
    assert (b["id"], native["id"]) == (handle.id, handle.id)
    assert (native["state"], native["tier"]) == ("RUNNING", "high")
    for shown in (a, b, c, native):
        assert json.loads(json.dumps(shown)) == shown


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("completed", ("completed", "completed", "completed")),
        ("dead", ("dead-letter", "dead_lettered", "dead")),
        ("cancelled", ("cancelled", "cancelled", "cancelled")),
    ],
)
async def test_an_ended_task_is_shown_in_every_form(
    harness: Harness, ended: str, words: tuple[str, str, str]
) -> None:
    lease = await harness.running()
    if ended == "completed":
        await lease.complete({"files": 2})
    elif ended == "dead":
        await lease.fail("auth_failure", "who are you?")
    else:
        await harness.queue.cancel(lease.id, "not needed")
    task = await harness.task(lease.id)

    a, b, c = view(task, "A"), view(task, "B")["task"], view(task, "C")

    assert isinstance(b, dict)
    assert (a["status"], b["status"], c["status"]) == words
    assert a["cancelReason"] == ("not needed" if ended == "cancelled" else None)
    info = {"reason": "auth_failure", "message": "who are you?"}
    assert c["error_info"] == (info if ended == "dead" else None)
