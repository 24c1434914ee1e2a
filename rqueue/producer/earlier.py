"""Deduplication against the archive: tasks that completed there are not submitted again, however
long ago that was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.core.submit import Draft, SubmitResult, submit
from rqueue.errors import ConfigError, RQueueError

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.store.shard import Shard
    from rqueue.task.ids import TaskId


log = logging.getLogger("rqueue.scheduler")
MARK = '"idem"'
# For how long an unavailable archive is not queried again.
AWAY_SEC = 30.0


async def submit_new(
    shard: Shard,
    archive: ArchiveReader | None,
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[SubmitResult | RQueueError]:
    """`submit` for drafts that have not completed before; queries the archive once. Raises
    StoreUnavailable or ConfigError where the archive cannot answer, and then nothing was sent.
    """
    known = {} if archive is None else await completed_before(archive, drafts)
    return await submit_others(shard, known, drafts, ids=ids, replicas=replicas)


async def submit_others(
    shard: Shard,
    known: Mapping[int, SubmitResult],
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[SubmitResult | RQueueError]:
    """`submit` for the drafts whose positions are not in `known`; the results of the
    others are taken from it.
    """
    if not known:
        return await submit(shard, drafts, ids=ids, replicas=replicas)
    fresh = [place for place in range(len(drafts)) if place not in known]
    answers = await submit(
        shard,
        [drafts[place] for place in fresh],
        ids=[ids[place] for place in fresh] if ids else (),
        replicas=replicas,
    )
    found: dict[int, SubmitResult | RQueueError] = {
        **known,
        **dict(zip(fresh, answers, strict=True)),
    }
    return [found[place] for place in range(len(drafts))]


async def completed_before(
    archive: ArchiveReader, drafts: Sequence[Draft]
) -> dict[int, SubmitResult]:
    """The drafts, by position, whose tasks have completed, and those tasks."""
    shas = {place: sha for place, draft in enumerate(drafts) if (sha := sha_of(draft))}
    if not shas:
        return {}
    done = await archive.completed(list(dict.fromkeys(shas.values())))
    return {
        place: SubmitResult(done[sha], created=False) for place, sha in shas.items() if sha in done
    }


def sha_of(draft: Draft) -> str | None:
    """The key under which a completed task like this one is stored; None where that
    does not matter.
    """
    if MARK not in draft.more:
        return None
    more: Any = json.loads(draft.more)
    return more["idem"] if more.get("unique") == "until_done" else None


class CompletedLookup:
    """Finds completed tasks in the archive. When the archive is unavailable, it is not queried
    again for a while, so that callers do not wait each time.
    """

    def __init__(self, archive: ArchiveReader | None, clock: Clock) -> None:
        self.archive = archive
        self.clock = clock
        self.retry_at = clock.monotonic()
        # The error that was logged last.
        self.fault: str | None = None

    async def known(self, drafts: Sequence[Draft]) -> dict[int, SubmitResult] | None:
        """The drafts, by position, whose tasks have completed; None where some have idempotency
        keys and the archive is unavailable.
        """
        if self.archive is None or not any(map(sha_of, drafts)):
            return {}
        if self.clock.monotonic() < self.retry_at:
            return None
        try:
            found = await completed_before(self.archive, drafts)
        except RQueueError as error:
            # Also for an archive without tables, or without the right to read: tasks without an
            # idempotency key are still submitted.
            self.retry_at = self.clock.monotonic() + AWAY_SEC
            self.report(str(error))
            return None
        self.report(None)
        return found

    def report(self, fault: str | None) -> None:
        """Logs why the archive is unavailable, or that it is available again: only on change."""
        if fault == self.fault:
            return
        self.fault = fault
        if fault is None:
            log.info("archive available again for deduplication")
        else:
            log.warning("archive unavailable, tasks with idempotency keys wait: %s", fault)


WAY_OUT = (
    "set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml; for a queue without an archive,"
    " run `rqueue archive leave` and set `archive: none`"
)


def archive_unknown(otherwise: str) -> ConfigError:
    """The error where this process cannot reach the queue's archive; `otherwise` is
    what the archive might do.
    """
    rule = f"is not set, and the archive of this queue may {otherwise}: {WAY_OUT}"
    return ConfigError("postgres_url", rule)
