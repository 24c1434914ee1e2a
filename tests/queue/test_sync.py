"""`queue.sync`: the same calls from blocking code, from threads, and when interrupted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import PIPE, Popen

import pytest
import redis

from rqueue import Queue, State, Task
from rqueue.errors import InvalidTask, LeaseLost, ResultTimeout, TaskNotFound
from tests.guard import guarded
from tests.servers import Server


@pytest.fixture
def queue(valkey: Server) -> Iterator[Queue]:
    queue = Queue("plain", url=valkey.url)
    yield queue
    queue.sync.aclose()


def test_blocking_code_runs_a_task_from_submit_to_result(queue: Queue) -> None:
    handle = queue.sync.enqueue("code", {"n": 1}, tags=["a"])
    (lease,) = queue.sync.claim(worker="w1", types=["code"], n=5)
    lease.start()
    lease.renew()
    lease.complete({"done": True})

    assert (handle.created, handle.status()) == (True, State.COMPLETED)
    assert handle.result(timeout=5) == {"done": True}
    assert lease.task.payload == {"n": 1}
    found = queue.sync.get(handle.id)
    assert isinstance(found, Task)
    assert queue.sync.counts()["COMPLETED"] == 1


def test_every_coroutine_of_the_queue_has_a_blocking_call(queue: Queue) -> None:
    handles = queue.sync.enqueue_many([queue.call("code", n) for n in range(3)])
    document = queue.sync.enqueue_document({"task_type": "code"})
    ids = [handle.id for handle in (*handles, document)]

    queue.sync.set_priority(ids[0], 1)
    queue.sync.edit(ids[0], {"n": "new"})
    queue.sync.reschedule(ids[1], delay=60)
    assert queue.sync.run_now(ids[1]) is True
    queue.sync.pause()
    assert queue.sync.claim(worker="w1") == []
    queue.sync.resume()
    found = queue.sync.find(type="code")
    assert sorted(task.id for task in found) == sorted(ids)
    assert handles[2].cancel("no") is True
    swept = queue.sync.purge(states=None, dry_run=True)
    assert (swept.found, swept.done) == (3, 0)
    (lease,) = queue.sync.claim(worker="w1")
    assert lease.fail("error", "no", permanent=True) is State.DEAD_LETTERED
    assert queue.sync.dead.retry(lease.id) is State.READY
    assert queue.sync.purge().found == 0


def test_every_namespace_has_blocking_calls(queue: Queue) -> None:
    sync = queue.sync
    dag = sync.dags.submit({"tasks": [{"type": "code"}, {"type": "code"}]})
    (lease, _) = sync.claim(worker="w1", n=2)
    lease.fail("error", "no", permanent=True)

    assert [found.id for found in sync.dags.list()] == [dag.id]
    assert sync.dags.status(dag.id).dead == 1
    assert [task.id for task in sync.dead.list(type="code")] == [lease.id]
    assert sync.dags.retry(dag.id).retried == [lease.id]
    assert sync.limits.lift_slowdown("code") is False
    sync.budgets.set(5.0)
    assert sync.budgets.list().day.ceiling_usd == 5.0
    assert [worker.name for worker in sync.fleet.workers()] == ["w1"]
    sync.roles.set("agent:coder", "agent")
    assert sync.roles.list() == {"agent:coder": "agent"}
    assert sync.notices.sinks() == []
    assert sync.artifacts.list(lease.id) == []


def test_errors_are_raised_unchanged(queue: Queue) -> None:
    with pytest.raises(InvalidTask) as invalid:
        queue.sync.enqueue("a b")
    with pytest.raises(TaskNotFound):
        queue.sync.get("nobody")
    handle = queue.sync.enqueue("code")
    with pytest.raises(ResultTimeout):
        handle.result(timeout=0.01)
    (lease,) = queue.sync.claim(worker="w1")
    queue.sync.cancel(handle.id)
    with pytest.raises(LeaseLost):
        lease.complete()
    with pytest.raises(AttributeError):
        _ = queue.sync.nothing

    assert (invalid.value.field, "is a name" in invalid.value.rule) == ("type", True)


def test_threads_share_one_queue(queue: Queue) -> None:
    with ThreadPoolExecutor(16) as pool:
        handles = list(pool.map(lambda n: queue.sync.enqueue("code", n), range(200)))
        claims = pool.map(lambda n: queue.sync.claim(worker=f"w{n}", n=20), range(10))
        leases = [lease for found in claims for lease in found]
        list(pool.map(lambda lease: lease.start(), leases))
        list(pool.map(lambda lease: lease.complete(lease.task.payload), leases))
        results = list(pool.map(lambda handle: handle.result(timeout=20), handles))

    assert results == list(range(200))
    assert threads_named("rqueue") == 1


def threads_named(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def test_two_queues_share_the_thread(queue: Queue, valkey: Server) -> None:
    other = Queue("other", url=valkey.url)

    queue.sync.enqueue("code")
    other.sync.enqueue("code")

    assert threads_named("rqueue") == 1
    other.sync.aclose()


def test_a_result_wakes_a_waiting_thread(queue: Queue) -> None:
    handle = queue.sync.enqueue("code")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(handle.result, timeout=20)
        (lease,) = queue.sync.claim(worker="w1")
        lease.start()
        lease.complete("woken")

        assert waiting.result(timeout=20) == "woken"


async def test_blocking_calls_work_beside_a_running_loop(valkey: Server) -> None:
    queue = Queue("both", url=valkey.url)

    handle = await queue.enqueue("code")

    assert queue.sync.get(handle.id).id == handle.id
    assert await handle.status() is State.READY
    queue.sync.aclose()
    await queue.aclose()


# Interrupts a call, reports it, and after a line on its standard input makes the next call.
INTERRUPTED = """
import sys
from rqueue import Queue

queue = Queue("plain", url=sys.argv[1])
try:
    {first}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.readline()
    print({then}, flush=True)
queue.sync.aclose()
"""


@contextmanager
def interrupted(server: Server, pattern: str, first: str, then: str) -> Iterator[Popen[str]]:
    """Runs a process that gets SIGINT in its first call, once the server has a key like this."""
    program = INTERRUPTED.format(first=first, then=then)
    command = [sys.executable, "-c", program, server.url]
    with guarded(Popen(command, stdin=PIPE, stdout=PIPE, text=True)) as process:
        with redis.Redis.from_url(server.plain_url) as client:
            while not client.keys(pattern):
                assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "interrupted\n"
        yield process


def test_an_interrupted_wait_ends_at_once_and_leaves_no_waiter(
    queue: Queue, valkey: Server
) -> None:
    queue.sync.enqueue("code")
    (lease,) = queue.sync.claim(worker="w0")

    first = 'queue.sync.claim(worker="w1", wait=3600)'
    with interrupted(valkey, "*}:waiting:*", first, '"over"') as process:
        lease.release()
        (again,) = queue.sync.claim(worker="w2", wait=5)

        assert again.id == lease.id
        assert process.communicate("\n")[0] == "over\n"
        assert process.returncode == 0


def test_an_interrupted_result_can_be_awaited_again(queue: Queue, valkey: Server) -> None:
    handle = queue.sync.enqueue("code")

    first = f'handle = queue.sync.handle("{handle.id}"); handle.result(timeout=3600)'
    with interrupted(valkey, "*}:watchers:*", first, "handle.result(timeout=5)") as process:
        (lease,) = queue.sync.claim(worker="w1")
        lease.start()
        lease.complete("after all")

        assert process.communicate("\n")[0] == "after all\n"
        assert process.returncode == 0
