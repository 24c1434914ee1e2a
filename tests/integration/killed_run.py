"""A test run that hangs with its servers up, to be killed. It writes down which they are."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.postgres import Database
from tests.servers import Server


def test_that_hangs(valkey: Server, cluster: Server, pg: Database) -> None:
    assert pg.cluster.process is not None
    pids = [valkey.process.pid, cluster.process.pid, pg.cluster.process.pid]
    # Named at once: who waits for the file may read it.
    part = Path(os.environ["RQUEUE_PIDS"] + ".part")
    part.write_text(" ".join(map(str, [os.getpid(), *pids])))
    part.rename(os.environ["RQUEUE_PIDS"])
    while True:
        signal.pause()
