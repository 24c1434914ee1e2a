"""After a fork both processes work, each with its own connections and event loop."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable

import pytest

from rqueue import Queue, State
from tests.servers import Server


def forked(work: Callable[[], object]) -> Callable[[], str]:
    """Forks a process that runs a function. Returns a function that waits for its result."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        result = "nothing"
        try:
            result = str(work())
        except BaseException:
            result = traceback.format_exc()
        finally:
            os.write(write, result.encode())
            # No cleanup of what belongs to the parent process, which includes pytest.
            os._exit(0)
    os.close(write)

    def wait() -> str:
        with os.fdopen(read, "rb") as pipe:
            result = pipe.read().decode()
        os.waitpid(pid, 0)
        return result

    return wait


def test_both_processes_can_use_queue_sync_after_a_fork(valkey: Server) -> None:
    queue = Queue("forked", url=valkey.url)
    first = queue.sync.enqueue("code", "before")

    def child() -> object:
        theirs = queue.sync.enqueue("code", "child")
        states = [queue.sync.get(task.id).state for task in (first, theirs)]
        (lease,) = queue.sync.claim(worker="child")
        lease.start()
        lease.complete("from the child")
        return theirs.id if set(states) == {State.READY} else states

    wait = forked(child)
    mine = queue.sync.enqueue("code", "parent")
    theirs = wait()

    assert queue.sync.get(theirs).payload == "child"
    assert queue.sync.get(mine.id).payload == "parent"
    assert first.result(timeout=10) == "from the child"
    assert theirs != mine.id
    queue.sync.aclose()


def test_a_process_forked_during_a_wait_can_use_the_queue(valkey: Server) -> None:
    queue = Queue("forked", url=valkey.url)
    handle = queue.sync.enqueue("code")

    def child() -> object:
        (lease,) = queue.sync.claim(worker="child", wait=10)
        lease.start()
        lease.complete("done")
        return handle.result(timeout=10)

    wait = forked(child)

    assert handle.result(timeout=20) == "done"
    assert wait() == "done"
    queue.sync.aclose()


def test_both_processes_can_use_the_queue_in_their_event_loops(valkey: Server) -> None:
    queue = Queue("forked", url=valkey.url)

    async def use(name: str) -> str:
        handles = await asyncio.gather(*(queue.enqueue("code", name) for _ in range(50)))
        states = {await handle.status() for handle in handles[:5]}
        return f"{name} {len({handle.id for handle in handles})} {sorted(states)[0]}"

    async def parent() -> tuple[str, str]:
        before = await use("before")
        wait = forked(lambda: asyncio.run(use("child")))
        mine = await use("parent")
        theirs = await asyncio.to_thread(wait)
        count = (await queue.counts())["READY"]
        await queue.aclose()
        assert (before, count) == ("before 50 READY", 150)
        return mine, theirs

    assert asyncio.run(parent()) == ("parent 50 READY", "child 50 READY")


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
def test_forked_processes_create_different_ids(running: Callable[[str], Server], kind: str) -> None:
    queue = Queue("forked", url=running(kind).url)
    queue.sync.enqueue("code")

    def child() -> str:
        return " ".join(queue.sync.enqueue("code").id for _ in range(20))

    waits = [forked(child) for _ in range(4)]
    mine = child()
    ids = [task for result in (mine, *(wait() for wait in waits)) for task in result.split()]

    assert len(ids) == len(set(ids)) == 100
    queue.sync.aclose()
