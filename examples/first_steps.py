"""First steps: an embedded server, a few tasks, manual claims, a retry, the results."""

import asyncio

from rqueue import Lease, Queue, RetryPolicy


async def work(queue: Queue) -> None:
    """Claims until no task has come for half a second."""
    while leases := await queue.claim(worker="demo-worker", n=10, wait=0.5):
        for lease in leases:
            await lease.start()
            await run(queue, lease)


async def run(queue: Queue, lease: Lease) -> None:
    """One attempt: the flaky task fails the first time, the others double their number."""
    task = lease.task
    if task.type == "flaky" and task.attempts == 0:
        state = await lease.fail("error", "the first try always fails")
        print(f"  {task.type:7} failed once, now {state}")
        await queue.run_now(lease.id)
        return
    await lease.complete({"doubled": task.payload["number"] * 2})
    print(f"  {task.type:7} priority {task.spec.priority:g}, payload {task.payload}")


async def main() -> None:
    async with Queue("first-steps", embedded=True) as queue:
        print("enqueue: five tasks of different urgency, and one that fails first")
        handles = await queue.enqueue_many(
            queue.call("double", {"number": n}, priority=n * 10) for n in (5, 3, 1, 4, 2)
        )
        flaky = await queue.enqueue(
            "flaky", {"number": 21}, priority=0, retry=RetryPolicy.immediate()
        )

        print("work: most urgent first")
        worker = asyncio.create_task(work(queue))
        print("results:", [await handle.result(timeout=10) for handle in [*handles, flaky]])
        await worker
        counts = await queue.counts()
        print("counts:", {str(state): n for state, n in counts.by_state.items() if n})


if __name__ == "__main__":
    asyncio.run(main())
