"""The window of idempotency keys beyond Redis: what the archive knows to be completed is not done
again, however long ago that was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import RQueueError
from rqueue.store.submits import Draft, Taken, submit

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.model.ids import TaskId
    from rqueue.store.shard import Shard

log = logging.getLogger("rqueue.scheduler")

MARK = '"idem"'
# How long an archive that could not say is not asked again.
AWAY_SEC = 30.0


async def submit_new(
    shard: Shard,
    past: ArchiveReader | None,
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[Taken | RQueueError]:
    """`submit` for what is not completed already, by one question to the archive before. Raises
    StoreUnavailable or ConfigError where that cannot say, and then nothing was sent.
    """
    known = {} if past is None else await completed_before(past, drafts)
    return await submit_others(shard, known, drafts, ids=ids, replicas=replicas)


async def submit_others(
    shard: Shard,
    known: Mapping[int, Taken],
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[Taken | RQueueError]:
    """`submit` for the drafts whose places are not known; the others are what they are known as."""
    if not known:
        return await submit(shard, drafts, ids=ids, replicas=replicas)
    fresh = [place for place in range(len(drafts)) if place not in known]
    answers = await submit(
        shard,
        [drafts[place] for place in fresh],
        ids=[ids[place] for place in fresh] if ids else (),
        replicas=replicas,
    )
    found: dict[int, Taken | RQueueError] = {**known, **dict(zip(fresh, answers, strict=True))}
    return [found[place] for place in range(len(drafts))]


async def completed_before(past: ArchiveReader, drafts: Sequence[Draft]) -> dict[int, Taken]:
    """The drafts, by their places, whose tasks have completed, and which those are."""
    shas = {place: sha for place, draft in enumerate(drafts) if (sha := sha_of(draft))}
    if not shas:
        return {}
    done = await past.completed(list(dict.fromkeys(shas.values())))
    return {place: Taken(done[sha], created=False) for place, sha in shas.items() if sha in done}


def sha_of(draft: Draft) -> str | None:
    """What a completed task like this one would be known by; None where that would not matter."""
    if MARK not in draft.more:
        return None
    more: Any = json.loads(draft.more)
    return more["idem"] if more.get("unique") == "until_done" else None


class Memory:
    """What the archive knows to be completed, as far as it can be asked: once it could not say, it
    is left alone for a while, and who asks need not wait for it each time.
    """

    def __init__(self, past: ArchiveReader | None, clock: Clock) -> None:
        self.past = past
        self.clock = clock
        self.ask_at = clock.monotonic()
        # Why it could not say, as it was told last.
        self.fault: str | None = None

    async def known(self, drafts: Sequence[Draft]) -> dict[int, Taken] | None:
        """The drafts, by their places, whose tasks have completed; None where some have keys and
        nobody can say.
        """
        if self.past is None or not any(map(sha_of, drafts)):
            return {}
        if self.clock.monotonic() < self.ask_at:
            return None
        try:
            found = await completed_before(self.past, drafts)
        except RQueueError as error:
            # Also one without our tables, or that we may not read: tasks without a key go on.
            self.ask_at = self.clock.monotonic() + AWAY_SEC
            self.tell(str(error))
            return None
        self.tell(None)
        return found

    def tell(self, fault: str | None) -> None:
        """Logs why the archive cannot say, or that it can: when that changes, not each time."""
        if fault == self.fault:
            return
        self.fault = fault
        if fault is None:
            log.info("the archive says again which tasks are done")
        else:
            log.warning("tasks with keys wait for the archive: %s", fault)
