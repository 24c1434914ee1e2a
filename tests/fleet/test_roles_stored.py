"""The principals that a call sends, and the refusals by the server."""

from __future__ import annotations

import json

from rqueue.core.submit import forbidden, pages_of, submit, who_of
from rqueue.errors import Forbidden
from rqueue.store.shard import Terms
from tests.harness import Harness


def test_no_principal_is_sent_as_nothing() -> None:
    assert who_of(Terms(), ()) == ""


def test_each_principal_is_sent_with_its_default_role() -> None:
    terms = Terms(default_role="human", inbox_role="agent")

    assert json.loads(who_of(terms, ("agent:a", "service:inbox"))) == {
        "by": [["agent:a", "human"], ["service:inbox", "agent"]],
        "may": ["orchestrator", "human"],
    }


def test_a_refusal_names_the_principal_the_reason_and_the_remedy() -> None:
    error = forbidden("agent:a agent")

    assert isinstance(error, Forbidden)
    assert (error.principal, error.role) == ("agent:a", "agent")
    assert "ctx.spawn" in str(error)
    assert "rqueue role set agent:a orchestrator" in str(error)


async def test_tasks_of_different_principals_go_in_different_calls(harness: Harness) -> None:
    plain = harness.queue._internals.drafter.draft({"type": "code"})
    one, two = plain._replace(by="agent:one"), plain._replace(by="agent:two")

    pages = list(pages_of([one, one, two, plain, plain]))

    assert [len(page.drafts) for page in pages] == [2, 1, 2]


async def test_a_refused_task_does_not_block_others(harness: Harness) -> None:
    await harness.queue.roles.set("agent:one", "agent")
    plain = harness.queue._internals.drafter.draft({"type": "code"})

    answers = await submit(
        harness.queue._internals.shard,
        [plain, plain._replace(by="agent:one"), plain._replace(by="agent:two")],
    )

    assert [isinstance(answer, Forbidden) for answer in answers] == [False, True, False]
    assert (await harness.queue.counts()).submitted == 2
