"""A test run that hangs while its servers run, to be killed. It writes their process
ids to a file.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.postgres import Database
from tests.servers import Server


def test_that_hangs(valkey: Server, cluster: Server, pg: Database) -> None:
    assert pg.cluster.process is not None
    pids = [valkey.process.pid, cluster.process.pid, pg.cluster.process.pid]
    # Renamed into place: the reader of the file never sees a part of it.
    part = Path(os.environ["RQUEUE_PIDS"] + ".part")
    part.write_text(" ".join(map(str, [os.getpid(), *pids])))
    part.rename(os.environ["RQUEUE_PIDS"])
    while True:
        signal.pause()
