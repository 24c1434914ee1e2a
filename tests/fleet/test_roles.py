"""Roles by the API: who may create tasks, in whose name, and which arguments are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Queue
from rqueue.dags import store as dag_store
from rqueue.dags.resumer import Resumer
from rqueue.errors import ConfigError, Forbidden, InvalidTask
from rqueue.fleet import roles
from rqueue.settings.load import Settings
from rqueue.task.spec import TaskSpec
from tests.dags.submitted_dags import settled
from tests.harness import Harness, opened

AGENT, HUMAN = "agent:coder", "human:ada"
PLAN = {"tasks": [{"type": "code", "name": "a"}, {"type": "code", "after": ["a"]}]}


async def submitted_twice(queue: Queue) -> None:
    async with queue.dag("two") as dag:
        dag.chain(queue.call("code"), queue.call("code"))


WAYS: dict[str, Callable[[Queue], Awaitable[Any]]] = {
    "one": lambda queue: queue.enqueue("code", {"n": 1}),
    "one with options": lambda queue: queue.enqueue("code", {"n": 1}, priority=5, tags=["a"]),
    "one as another": lambda queue: queue.enqueue("code", created_by=HUMAN),
    "many": lambda queue: queue.enqueue_many([queue.call("code"), {"type": "code"}]),
    "a document": lambda queue: queue.enqueue_document({"task": {"type": "code"}}),
    "a replica's": lambda queue: queue.enqueue("code", wait_replicas=0),
    "a plan": lambda queue: queue.dags.submit(PLAN),
    "a built DAG": submitted_twice,
    "a DAG as another": lambda queue: queue.dags.submit({**PLAN, "created_by": HUMAN}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_creates_no_task_by_any_call(server: Any, way: str) -> None:
    async with opened(server, principal=AGENT) as harness:
        await harness.queue.roles.set(AGENT, "agent")
        before = await harness.dump()

        with pytest.raises(Forbidden) as refused:
            await WAYS[way](harness.queue)

        assert (refused.value.principal, refused.value.role) == (AGENT, "agent")
        assert await harness.dump() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", ["orchestrator", "human"])
async def test_other_roles_create_tasks_by_every_call(server: Any, way: str, role: Any) -> None:
    async with opened(server, principal=AGENT, default_role="agent") as harness:
        await roles.set_role(harness.queue._internals.shard, AGENT, role, by=None)

        await WAYS[way](harness.queue)

        assert (await harness.queue.counts()).submitted > 0


async def test_a_principal_without_a_role_has_the_default(server: Any) -> None:
    async with opened(server, principal=AGENT, default_role="agent") as harness:
        with pytest.raises(Forbidden):
            await harness.queue.enqueue("code")

        await roles.set_role(harness.queue._internals.shard, AGENT, "orchestrator", by=None)
        await harness.queue.enqueue("code")

        await harness.queue.roles.drop(AGENT)
        with pytest.raises(Forbidden):
            await harness.queue.enqueue("code")


async def test_a_named_creator_is_checked_if_there_is_no_principal(harness: Harness) -> None:
    await harness.queue.roles.set(AGENT, "agent")

    with pytest.raises(Forbidden):
        await harness.queue.enqueue("code", created_by=AGENT)
    with pytest.raises(Forbidden):
        await harness.queue.dags.submit({**PLAN, "created_by": AGENT})
    with pytest.raises(Forbidden):
        await harness.queue.dags.submit({"tasks": [{"type": "code", "created_by": AGENT}]})

    await harness.queue.enqueue("code")
    await harness.queue.enqueue("code", created_by=HUMAN)
    assert (await harness.queue.counts()).submitted == 2


async def test_of_many_tasks_only_those_of_the_agent_are_refused(harness: Harness) -> None:
    await harness.queue.roles.set(AGENT, "agent")
    calls = [harness.queue.call("code", created_by=name) for name in (HUMAN, AGENT, HUMAN)]

    with pytest.raises(Forbidden):
        await harness.queue.enqueue_many(calls)

    found = [task.spec.created_by async for task in harness.queue.find()]
    assert found == [HUMAN, HUMAN]


async def test_the_principal_is_the_default_creator(server: Any) -> None:
    async with opened(server, principal=HUMAN) as harness:
        queue = harness.queue
        plain = await queue.enqueue("code", {"n": 1})
        more = await queue.enqueue("code", {"n": 1}, priority=5)
        other = await queue.enqueue("code", {"n": 1}, created_by=AGENT)
        dag = await queue.dags.submit(PLAN)

        creators = [(await queue.get(one.id)).spec.created_by for one in (plain, more, other)]
        assert creators == [HUMAN, HUMAN, AGENT]
        assert (await dag.status()).spec.created_by == HUMAN
        assert {task.spec.created_by async for task in queue.find()} == {HUMAN, AGENT}


async def test_a_plain_task_with_a_creator_is_stored_like_any_other(server: Any) -> None:
    async with opened(server, principal=HUMAN) as harness:
        for payload in ({"n": 1}, {}, None, [1]):
            quick = harness.queue._internals.drafter.draft(
                harness.queue.call("code", payload)
            ).definition
            spec = TaskSpec.of(
                type="code", payload={} if payload is None else payload, created_by=HUMAN
            )
            assert quick == spec.definition()


async def test_a_follow_up_dag_has_the_permission_of_the_first_submit(
    server: Any,
) -> None:
    async with opened(server, principal=HUMAN) as harness:
        plan = {**PLAN, "on_complete": {"tasks": [{"type": "code"}]}}
        dag = await harness.queue.dags.submit(plan)
        await harness.queue.roles.set(HUMAN, "agent")
        for _ in range(2):
            (lease,) = await harness.queue.claim(worker="w1")
            await lease.start()
            await lease.complete()

        # The scheduler that submits it has another principal, which does not count.
        async with opened(server, principal=AGENT, default_role="agent") as scheduler:
            await Resumer(
                scheduler.queue._internals.shard, scheduler.queue._internals.drafter
            ).tick()

        following = (await dag.status()).next
        assert following is not None
        found = await dag_store.read(harness.queue._internals.shard, following)
        assert (found.spec.created_by, found.total) == (HUMAN, 1)
        (lease,) = await harness.queue.claim(worker="w1")
        assert lease.task.spec.created_by == HUMAN
        await settled(harness)


async def test_roles_are_set_and_dropped(harness: Harness) -> None:
    await harness.queue.roles.set(AGENT, "agent")
    await harness.queue.roles.set(HUMAN, "human")
    assert await harness.queue.roles.list() == {AGENT: "agent", HUMAN: "human"}

    await harness.queue.roles.drop(AGENT)
    await harness.queue.roles.drop(AGENT)
    assert await harness.queue.roles.list() == {HUMAN: "human"}


@pytest.mark.parametrize("named", [AGENT, HUMAN], ids=["its own", "another's"])
@pytest.mark.parametrize("default", ["orchestrator", "agent"])
async def test_an_agent_changes_no_role(server: Any, named: str, default: Any) -> None:
    async with opened(server, principal=AGENT, default_role=default) as harness:
        if default == "orchestrator":
            await harness.queue.roles.set(HUMAN, "agent")
            await harness.queue.roles.set(AGENT, "agent")
        before = await harness.dump()

        with pytest.raises(Forbidden, match="may not change roles") as refused:
            await harness.queue.roles.set(named, "orchestrator")
        with pytest.raises(Forbidden):
            await harness.queue.roles.drop(named)

        assert (refused.value.principal, refused.value.role) == (AGENT, "agent")
        assert await harness.dump() == before


@pytest.mark.parametrize("role", ["orchestrator", "human"])
async def test_other_roles_and_anonymous_callers_change_roles(server: Any, role: Any) -> None:
    async with opened(server) as harness:
        await harness.queue.roles.set(HUMAN, role)
        async with opened(server, principal=HUMAN, default_role="agent") as other:
            await other.queue.roles.set(AGENT, "agent")
            await other.queue.roles.drop(AGENT)

            assert await other.queue.roles.list() == {HUMAN: role}


@pytest.mark.parametrize(
    ("principal", "role", "field"),
    [("ada", "human", "principal"), ("human:", "human", "principal"), (5, "human", "principal"),
     ("robot:r2", "agent", "principal"), (HUMAN, "boss", "role"), (HUMAN, None, "role")],
)  # fmt: skip
async def test_an_invalid_principal_or_role_is_refused_before_the_call(
    harness: Harness, principal: Any, role: Any, field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await harness.queue.roles.set(principal, role)

    assert refused.value.field == field
    assert await harness.dump() == {}


async def test_a_name_without_a_kind_has_no_role(harness: Harness) -> None:
    with pytest.raises(InvalidTask):
        await harness.queue.roles.drop("ada")


@pytest.mark.parametrize(
    ("setting", "value"),
    [("principal", "ada"), ("principal", ""), ("default_role", "boss"), ("inbox_role", "")],
)
def test_settings_are_checked(setting: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.load("work", **{setting: value})

    assert refused.value.setting == setting


def test_the_environment_sets_the_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQUEUE_PRINCIPAL", AGENT)
    monkeypatch.setenv("RQUEUE_DEFAULT_ROLE", "agent")

    settings = Settings.load("work")

    assert (settings.principal, settings.default_role) == (AGENT, "agent")
