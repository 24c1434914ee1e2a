"""An embedding worker: computes vectors of completed tasks, independently of the queue.

    python examples/embedding_worker.py my-queue          # until Ctrl-C
    python examples/embedding_worker.py my-queue --once   # process the pending rows, then end

The queue needs an archive (RQUEUE_POSTGRES_URL) and the setting `embedding_jobs`. The vectors here
are made by hashing words, so that it runs anywhere; pass your model's function to `work` instead.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from math import sqrt

from rqueue import Queue
from rqueue.archive.maintenance.embeddings import Embedding
from rqueue.errors import LeaseLost, StoreUnavailable

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
SIZE = 64
BATCH = 32
PAUSE_SEC = 2.0


async def hashed(texts: Sequence[str]) -> list[list[float]]:
    """A vector for each text: every word adds to one component. Equal texts have equal vectors."""
    return [vector_of(text) for text in texts]


def vector_of(text: str) -> list[float]:
    vector = [0.0] * SIZE
    for word in text.lower().split():
        digest = sha256(word.encode(errors="replace")).digest()
        vector[digest[0] % SIZE] += 1.0 if digest[1] % 2 else -1.0
    length = sqrt(sum(number * number for number in vector)) or 1.0
    return [number / length for number in vector]


def text_of(claim: Embedding) -> str:
    """The text to embed: type, title, tags, payload and output of a task."""
    parts = [claim.type, claim.title or "", *claim.tags]
    parts += [json.dumps(part, ensure_ascii=False) for part in (claim.payload, claim.output)]
    return " ".join(parts)


async def work(queue: Queue, embed: Embed, *, worker: str = "embedder", once: bool = False) -> int:
    """Embeds pending and new tasks. Returns how many were done."""
    embeddings, done = queue.archive.embeddings, 0
    while True:
        claims = await embeddings.claim(worker=worker, n=BATCH)
        if not claims and once:
            return done
        if not claims:
            await asyncio.sleep(PAUSE_SEC)
            continue
        try:
            vectors = await embed([text_of(claim) for claim in claims])
        except Exception as error:  # any error of the model: the tasks are retried later
            for claim in claims:
                await embeddings.fail(claim, f"{type(error).__name__}: {error}")
            continue
        for claim, vector in zip(claims, vectors, strict=True):
            try:
                await embeddings.done(claim, vector)
                done += 1
            except LeaseLost:
                print(f"{claim.task} lease lost: another worker has it now")


async def main(name: str, *, once: bool) -> None:
    async with Queue(name) as queue:
        while True:
            try:
                done = await work(queue, hashed, once=once)
                print(f"embedded {done}")
                return
            except StoreUnavailable as error:
                print(f"waiting: {error}")
                await asyncio.sleep(PAUSE_SEC)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], once="--once" in sys.argv[2:]))
