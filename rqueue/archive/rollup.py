"""The statements that make task_queue_metrics of the archive's own rows.

Minutes are counted anew from what ended in them, hours from minutes and days from hours: done
twice, each gives the same. All times are UTC.
"""

from __future__ import annotations

LOCK = "SELECT pg_advisory_xact_lock(1700395893, hashtext(%s))"

# Whatever was archived since minutes were last recorded may have ended long ago, and so may
# attempts have failed of what ended just now.
TOUCHED = """
WITH late AS (
  SELECT id, finished_at FROM rqueue.task_lives
  WHERE queue = %(queue)s AND archived_at >= coalesce(
    (SELECT max(recorded_at) FROM rqueue.task_queue_metrics
      WHERE queue = %(queue)s AND period = 'minute') - %(margin)s,
    now() - %(backlog)s))
SELECT DISTINCT date_trunc('minute', at, 'UTC') FROM (
  SELECT finished_at AS at FROM late
  UNION ALL
  SELECT f.at FROM late JOIN rqueue.failed_attempts f ON f.task_id = late.id) AS touched
WHERE at >= %(floor)s
ORDER BY 1
"""

MINUTES = """
WITH minute AS (SELECT unnest(%(starts)s::timestamptz[]) AS start),
ended AS (
  SELECT m.start, t.state, t.discarded_at, t.created_at, t.finished_at,
    coalesce(t.agent_name, t.worker, 'nobody') AS agent
  FROM minute m JOIN rqueue.task_lives t ON t.queue = %(queue)s
    AND t.finished_at >= m.start AND t.finished_at < m.start + interval '1 minute'),
counted AS (
  SELECT start,
    count(*) FILTER (WHERE state = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE state = 'DEAD_LETTERED' OR discarded_at IS NOT NULL) AS failed,
    (avg(extract(epoch FROM finished_at - created_at)) FILTER (WHERE state = 'COMPLETED'))::float8
      AS latency
  FROM ended GROUP BY start),
tries AS (
  SELECT start, agent, 0 AS failed FROM ended WHERE state = 'COMPLETED'
  UNION ALL
  SELECT m.start, coalesce(
      (SELECT t.agent_name FROM rqueue.task_lives t WHERE t.id = f.task_id LIMIT 1),
      f.agent, 'nobody'), 1
  FROM minute m JOIN rqueue.failed_attempts f ON f.queue = %(queue)s
    AND f.at >= m.start AND f.at < m.start + interval '1 minute'),
agents AS (
  SELECT start, jsonb_object_agg(agent, jsonb_build_array(failed, tried)) AS attempts,
    jsonb_object_agg(agent, round(failed::numeric / tried, 6)) AS rates
  FROM (SELECT start, agent, sum(failed) AS failed, count(*) AS tried FROM tries GROUP BY 1, 2) a
  GROUP BY start)
INSERT INTO rqueue.task_queue_metrics AS t (
  queue, period, start, tasks_completed, tasks_failed, average_latency, error_rates_per_agent,
  attempts_per_agent)
SELECT %(queue)s, 'minute', start, coalesce(completed, 0), coalesce(failed, 0), latency,
  coalesce(rates, '{}'), coalesce(attempts, '{}')
FROM minute LEFT JOIN counted USING (start) LEFT JOIN agents USING (start)
ON CONFLICT (queue, period, start) DO UPDATE SET
  tasks_completed = EXCLUDED.tasks_completed, tasks_failed = EXCLUDED.tasks_failed,
  average_latency = EXCLUDED.average_latency,
  error_rates_per_agent = EXCLUDED.error_rates_per_agent,
  attempts_per_agent = EXCLUDED.attempts_per_agent, recorded_at = now()
"""

# A counter that is lower than it was is another one, or has lost its last seconds: it is counted on
# from there. Nothing is known of what was before the first look.
SAMPLE = """
WITH before AS (
  SELECT submitted_total AS total FROM rqueue.task_queue_metrics
  WHERE queue = %(queue)s AND sampled_at IS NOT NULL ORDER BY sampled_at DESC LIMIT 1)
INSERT INTO rqueue.task_queue_metrics AS t (
  queue, period, start, tasks_created, worker_heartbeat_delay, submitted_total, sampled_at)
VALUES (%(queue)s, 'minute', %(start)s,
  greatest(0, %(total)s - coalesce((SELECT total FROM before), %(total)s)), %(delay)s, %(total)s,
  clock_timestamp())
ON CONFLICT (queue, period, start) DO UPDATE SET
  tasks_created = t.tasks_created + EXCLUDED.tasks_created,
  worker_heartbeat_delay = greatest(t.worker_heartbeat_delay, EXCLUDED.worker_heartbeat_delay),
  submitted_total = EXCLUDED.submitted_total, sampled_at = EXCLUDED.sampled_at,
  recorded_at = now()
"""

# Of minutes an hour, of hours a day.
LARGER = """
WITH whole AS (SELECT unnest(%(starts)s::timestamptz[]) AS start),
part AS (
  SELECT w.start AS whole, m.* FROM whole w JOIN rqueue.task_queue_metrics m
    ON m.queue = %(queue)s AND m.period = %(smaller)s
    AND m.start >= w.start AND m.start < w.start + %(length)s::interval),
counted AS (
  SELECT whole AS start, sum(tasks_created) AS created, sum(tasks_completed) AS completed,
    sum(tasks_failed) AS failed, sum(average_latency * tasks_completed)
      / nullif(sum(tasks_completed) FILTER (WHERE average_latency IS NOT NULL), 0) AS latency,
    max(worker_heartbeat_delay) AS delay
  FROM part GROUP BY whole),
agents AS (
  SELECT start, jsonb_object_agg(agent, jsonb_build_array(failed, tried)) AS attempts,
    jsonb_object_agg(agent, round(failed / tried, 6)) AS rates
  FROM (
    SELECT whole AS start, key AS agent, sum((value ->> 0)::numeric) AS failed,
      sum((value ->> 1)::numeric) AS tried
    FROM part, jsonb_each(attempts_per_agent) GROUP BY 1, 2) a
  GROUP BY start)
INSERT INTO rqueue.task_queue_metrics (
  queue, period, start, tasks_created, tasks_completed, tasks_failed, average_latency,
  worker_heartbeat_delay, error_rates_per_agent, attempts_per_agent)
SELECT %(queue)s, %(larger)s, start, created, completed, failed, latency, delay,
  coalesce(rates, '{}'), coalesce(attempts, '{}')
FROM counted LEFT JOIN agents USING (start)
ON CONFLICT (queue, period, start) DO UPDATE SET
  tasks_created = EXCLUDED.tasks_created, tasks_completed = EXCLUDED.tasks_completed,
  tasks_failed = EXCLUDED.tasks_failed, average_latency = EXCLUDED.average_latency,
  worker_heartbeat_delay = EXCLUDED.worker_heartbeat_delay,
  error_rates_per_agent = EXCLUDED.error_rates_per_agent,
  attempts_per_agent = EXCLUDED.attempts_per_agent, recorded_at = now()
"""

READ = """
SELECT period, start, tasks_created, tasks_completed, tasks_failed, average_latency,
  worker_heartbeat_delay, error_rates_per_agent
FROM rqueue.task_queue_metrics
WHERE queue = %(queue)s AND period = %(period)s AND start >= %(since)s AND start < %(until)s
ORDER BY start LIMIT %(limit)s
"""
