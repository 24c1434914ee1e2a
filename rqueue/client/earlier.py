"""The window of idempotency keys beyond Redis: what the archive knows to be completed is not done
again, however long ago that was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.store.submits import Draft, Taken, submit

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.errors import RQueueError
    from rqueue.model.ids import TaskId
    from rqueue.store.shard import Shard

MARK = '"idem"'


async def submit_new(
    shard: Shard,
    past: ArchiveReader | None,
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[Taken | RQueueError]:
    """`submit` for what is not completed already, by one question to the archive before. Raises
    StoreUnavailable where that cannot say, and then nothing was sent.
    """
    known = {} if past is None else await completed_before(past, drafts)
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
