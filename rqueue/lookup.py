"""Where a queue's tasks are found, wherever they are by now, and what they have left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqueue.artifacts.results import shown
from rqueue.client.archivedesk import ArchiveDesk
from rqueue.client.artifactdesk import ArtifactDesk
from rqueue.errors import ConfigError
from rqueue.model.forms import view
from rqueue.upkeep import Upkeep

if TYPE_CHECKING:
    from rqueue.client.desk import Desk
    from rqueue.clock import Clock
    from rqueue.model.forms import Form
    from rqueue.model.state import State
    from rqueue.model.task import Task
    from rqueue.runtime import Runtime
    from rqueue.settings import Settings

NO_ARCHIVE = "is none here: set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml"


class Lookup:
    """The reader's half of a queue."""

    clock: Clock
    desk: Desk
    runtime: Runtime
    settings: Settings

    @property
    def upkeep(self) -> Upkeep:
        """What is done with the archive: metrics, embeddings, pruning, restoring, verifying."""
        return Upkeep(self.runtime, self.clock)

    async def get(self, task: str) -> Task:
        """A task by its id in any form, or by the caller's own id, from Redis or the archive.
        Raises TaskNotFound, and StoreUnavailable where one of them cannot say. One whose result is
        an artifact that is gone comes without it, and says so (`result_missing`).
        """
        return await shown(self.runtime.shelf, await self.desk.get(task))

    async def state(self, task: str) -> State:
        """Where a task is in its life; nothing else of it is brought."""
        return (await self.desk.get(task)).state

    async def view(self, task: str, form: Form | None = None) -> dict[str, Any]:
        """A task as one of the documents A, B or C shows it; by default as the profile says."""
        return view(await self.get(task), form or self.settings.preset.view)

    @property
    def artifacts(self) -> ArtifactDesk:
        """Puts and reads files and other large things, see docs/guides/artifacts.md."""
        return ArtifactDesk(self.desk, self.runtime.shelf, self.clock)

    @property
    def archived(self) -> ArchiveDesk:
        """What has ended and is in the archive; raises ConfigError where this queue has none."""
        if self.desk.past is None:
            raise ConfigError("archive", NO_ARCHIVE)
        return ArchiveDesk(self.desk.past)
