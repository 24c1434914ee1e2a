"""taskiq over a Redis list: BRPOP, nothing acknowledged.

The rest is in taskiq_tasks.py.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from taskiq_redis import ListQueueBroker

from benchmarks.peers.app import URL
from benchmarks.peers.taskiq_tasks import Tasks

broker = ListQueueBroker(url=URL, queue_name="bench")
tasks = Tasks(broker, "taskiq_list_app")

workers, send_all, send_one = tasks.workers, tasks.send_all, tasks.send_one
