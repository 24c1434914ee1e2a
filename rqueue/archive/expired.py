"""The statements that find and delete what the archive need not keep any longer.

A task goes from its first life on: a later one stays while an earlier one does, and what belongs to
a DAG that is not over stays with it.
"""

from __future__ import annotations

# Rows of one state that ended before a time, and before their keys were forgotten. `since` is where
# the batch before stopped.
ENDED = """
SELECT t.id, t.life, t.finished_at FROM rqueue.task_lives t
WHERE t.queue = %(queue)s AND t.state = %(state)s AND t.discarded_at IS NULL
  AND t.finished_at >= %(since)s AND t.finished_at < %(before)s
  AND (t.idempotency_sha IS NULL OR t.finished_at < %(unkeyed)s)
  AND NOT EXISTS (SELECT FROM rqueue.task_lives e WHERE e.id = t.id AND e.life < t.life)
  AND NOT EXISTS (
    SELECT FROM rqueue.dags d WHERE d.id = t.dag_id AND d.finished_at IS NULL)
ORDER BY t.finished_at LIMIT %(limit)s
"""

# Dead ones that are resolved: discarded before a time, or given another life, of which the last
# ended before it and is not dead itself.
RESOLVED = """
SELECT t.id, t.life, t.finished_at FROM rqueue.task_lives t
WHERE t.queue = %(queue)s AND (t.state = 'DEAD_LETTERED' OR t.discarded_at IS NOT NULL)
  AND t.finished_at >= %(since)s AND t.finished_at < %(before)s
  AND NOT EXISTS (SELECT FROM rqueue.task_lives e WHERE e.id = t.id AND e.life < t.life)
  AND NOT EXISTS (
    SELECT FROM rqueue.dags d WHERE d.id = t.dag_id AND d.finished_at IS NULL)
  AND (SELECT coalesce(n.discarded_at, CASE WHEN n.state <> 'DEAD_LETTERED' THEN n.finished_at END)
    FROM rqueue.task_lives n WHERE n.id = t.id ORDER BY n.life DESC LIMIT 1) < %(before)s
ORDER BY t.finished_at LIMIT %(limit)s
"""

LIVES = """
DELETE FROM rqueue.task_lives t
USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
WHERE t.id = gone.id AND t.life = gone.life
RETURNING t.dag_id
"""

# What nobody could tell the meaning of without its row.
BESIDE = (
    """
    DELETE FROM rqueue.embedding_jobs j
    USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
    WHERE j.task_id = gone.id AND j.life = gone.life
    """,
    """
    DELETE FROM rqueue.conflicts c
    USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
    WHERE c.id = gone.id AND c.life = gone.life
    """,
    """
    DELETE FROM rqueue.late_costs l
    USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS gone(id, life)
    WHERE l.task_id = gone.id AND l.life = gone.life
    """,
    """
    DELETE FROM rqueue.failed_attempts f WHERE f.task_id = ANY(%(ids)s::uuid[])
    AND NOT EXISTS (SELECT FROM rqueue.task_lives t WHERE t.id = f.task_id)
    """,
    """
    DELETE FROM rqueue.dags d WHERE d.id = ANY(%(dags)s::uuid[]) AND d.finished_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM rqueue.task_lives t WHERE t.dag_id = d.id)
    """,
)

EVENTS = """
DELETE FROM rqueue.life_events WHERE (task_id, life) IN (
  SELECT task_id, life FROM rqueue.life_events
  WHERE queue = %(queue)s AND at < %(before)s ORDER BY at LIMIT %(limit)s)
"""

MINUTES = """
DELETE FROM rqueue.task_queue_metrics WHERE queue = %(queue)s AND period = 'minute' AND start IN (
  SELECT start FROM rqueue.task_queue_metrics
  WHERE queue = %(queue)s AND period = 'minute' AND start < %(before)s
  ORDER BY start LIMIT %(limit)s)
"""

COUNT_EVENTS = """
SELECT count(*) FROM rqueue.life_events WHERE queue = %(queue)s AND at < %(before)s
"""
COUNT_MINUTES = """
SELECT count(*) FROM rqueue.task_queue_metrics
WHERE queue = %(queue)s AND period = 'minute' AND start < %(before)s
"""
