"""taskiq over a Redis stream: reads 100 at once (its default), acknowledges after the task.

The rest is in taskiq_tasks.py.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from taskiq_redis import RedisStreamBroker

from benchmarks.peers.app import URL
from benchmarks.peers.taskiq_tasks import Tasks

broker = RedisStreamBroker(url=URL, queue_name="bench", consumer_id="0")
tasks = Tasks(broker, "taskiq_stream_app")

workers, send_all, send_one = tasks.workers, tasks.send_all, tasks.send_one
