"""Values in the text format of COPY, and the SQL statements for the copied rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

NULL = r"\N"
# Characters with a meaning for COPY, and NUL, which PostgreSQL cannot store in a text.
ESCAPES = str.maketrans({"\0": "\ufffd", "\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
# The JSON escape of NUL. Preceded by an odd number of further backslashes, it is an ordinary text
# of six characters.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
MAX_ERROR = 8_192
MAX_NAME = 256
# Digits that fit into a bigint and an integer, and of numbers whose sum over thousands fits into a
# bigint.
BIGINT_DIGITS, INT_DIGITS, PART_DIGITS = 18, 9, 15


def json_of(data: bytes) -> Any:
    """Returns the value of a JSON text; None if it is invalid."""
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:
        return None


def has_nul(data: bytes) -> bool:
    """Returns whether JSON contains a NUL character, which PostgreSQL cannot store."""
    return b"\\u0000" in data and NUL.search(data) is not None


def number_in(fields: Mapping[str, str], name: str, digits: int = BIGINT_DIGITS) -> str:
    """Returns a count as text; 0 if it is missing or invalid."""
    found = fields.get(name, "0")
    return found if found.isdecimal() and found.isascii() and len(found) <= digits else "0"


def storable(text: str) -> str:
    """Returns the text without NUL characters, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd")


def escaped(text: str) -> str:
    """Escapes a text for COPY."""
    return text.translate(ESCAPES)


def quoted(text: str) -> str:
    """Quotes a text as an element of a PostgreSQL array."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def hexed(data: bytes) -> str:
    """Encodes bytes for COPY."""
    return r"\\x" + data.hex()


STAGING = """
CREATE TEMP TABLE IF NOT EXISTS new_lives (
  id uuid, life integer, state text, type text, dag_id uuid, parent_id uuid, agent_name text,
  worker text, model text, priority double precision, attempts integer, reclaims integer,
  parks integer, epoch integer, created_ms bigint, started_ms bigint, finished_ms bigint,
  discarded_ms bigint, reason text, error text, cancel_reason text, poison_pill boolean,
  cost_micro_usd bigint, tokens_input bigint, tokens_output bigint, idempotency_sha text,
  external_sha text, tags text[], definition bytea, is_spec boolean, result bytea,
  is_output boolean, record bytea, digest bytea
) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE IF NOT EXISTS new_failures (
  task_id uuid, epoch integer, attempt integer, type text, agent text, reason text, error text,
  duration_sec double precision, cost_micro_usd bigint, tokens bigint, model text, at timestamptz
) ON COMMIT DELETE ROWS
"""
COPY_LIVES = "COPY new_lives FROM STDIN"
COPY_FAILURES = "COPY new_failures FROM STDIN"
# An existing row is not changed, with one exception: if a reviewer has discarded the same life
# since, the row is amended.
LIVES = """
INSERT INTO rqueue.task_lives AS t (
  id, life, queue, type, state, dag_id, parent_id, agent_name, worker, model, priority, attempts,
  reclaims, parks, epoch, created_at, started_at, finished_at, discarded_at, reason, error,
  cancel_reason, poison_pill, cost_micro_usd, tokens_input, tokens_output, idempotency_sha,
  external_sha, tags, definition, spec, result, output, record, digest)
SELECT
  id, life, %s, type, state, dag_id, parent_id, agent_name, worker, model, priority, attempts,
  reclaims, parks, epoch,
  'epoch'::timestamptz + created_ms * interval '1 millisecond',
  'epoch'::timestamptz + started_ms * interval '1 millisecond',
  'epoch'::timestamptz + finished_ms * interval '1 millisecond',
  'epoch'::timestamptz + discarded_ms * interval '1 millisecond', reason, error,
  cancel_reason, poison_pill, cost_micro_usd, tokens_input, tokens_output, idempotency_sha,
  external_sha, tags, definition,
  CASE WHEN is_spec THEN convert_from(definition, 'UTF8')::jsonb END, result,
  CASE WHEN is_output THEN convert_from(result, 'UTF8')::jsonb END, record, digest
FROM new_lives
ON CONFLICT (id, life) DO UPDATE SET
  state = EXCLUDED.state, discarded_at = EXCLUDED.discarded_at,
  cancel_reason = EXCLUDED.cancel_reason, record = EXCLUDED.record
WHERE t.digest = EXCLUDED.digest AND EXCLUDED.discarded_at IS NOT NULL
  AND t.discarded_at IS DISTINCT FROM EXCLUDED.discarded_at
"""
# A cost that was reported after its attempt had lost the lease. The key (task, token, seq) makes it
# one row even if it is inserted several times.
LATE = """
INSERT INTO rqueue.late_costs (
  task_id, token, seq, life, epoch, worker, model, cost_micro_usd, tokens_input, tokens_output, at,
  queue)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
CONFLICTS = """
INSERT INTO rqueue.conflicts (
  id, life, queue, digest, state, finished_at, definition, result, record)
SELECT n.id, n.life, %s, n.digest, n.state,
  'epoch'::timestamptz + n.finished_ms * interval '1 millisecond', n.definition, n.result, n.record
FROM new_lives n JOIN rqueue.task_lives t ON t.id = n.id AND t.life = n.life
WHERE t.digest <> n.digest
ON CONFLICT DO NOTHING
"""
FAILURES = """
INSERT INTO rqueue.failed_attempts (
  task_id, epoch, attempt, queue, type, agent, reason, error, duration_sec, cost_micro_usd, tokens,
  model, at)
SELECT task_id, epoch, attempt, %s, type, agent, reason, error, duration_sec, cost_micro_usd,
  tokens, model, at
FROM new_failures
ON CONFLICT DO NOTHING
"""
DAGS = """
INSERT INTO rqueue.dags AS d (
  id, queue, title, status, created_by, created_at, finished_at, tasks, dead, cancelled,
  budget_micro_usd, spent_micro_usd, facts)
VALUES (
  %(id)s, %(queue)s, %(title)s, %(status)s, %(created_by)s, %(created_at)s, %(finished_at)s,
  %(tasks)s, %(dead)s, %(cancelled)s, %(budget)s, %(spent)s, %(facts)s)
ON CONFLICT (id) DO UPDATE SET
  status = EXCLUDED.status, finished_at = EXCLUDED.finished_at, tasks = EXCLUDED.tasks,
  dead = EXCLUDED.dead, cancelled = EXCLUDED.cancelled,
  budget_micro_usd = EXCLUDED.budget_micro_usd,
  spent_micro_usd = EXCLUDED.spent_micro_usd, facts = EXCLUDED.facts, archived_at = now()
WHERE d.finished_at IS NULL OR EXCLUDED.finished_at IS NOT NULL
"""
QUARANTINE = """
INSERT INTO rqueue.quarantine (queue, entry, task, line, kept, reason)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
# Events are made from the rows of the archive, not from the copied rows: a second end of a life is
# not an event.
AGENT_EVENTS = """
INSERT INTO rqueue.life_events AS e (
  task_id, life, queue, agent, type, event, dag_id, at, duration_sec, cost_micro_usd,
  tokens_input, tokens_output, model, error)
SELECT t.id, t.life, t.queue, coalesce(t.agent_name, t.worker, 'nobody'), t.type,
  CASE t.state WHEN 'COMPLETED' THEN 'task.completed' WHEN 'CANCELLED' THEN 'task.cancelled'
    ELSE 'task.dead_lettered' END,
  t.dag_id, t.finished_at, extract(epoch FROM t.finished_at - t.started_at), t.cost_micro_usd,
  t.tokens_input, t.tokens_output, t.model, t.error
FROM new_lives n JOIN rqueue.task_lives t ON t.id = n.id AND t.life = n.life
WHERE t.queue = %s
ON CONFLICT (task_id, life) DO UPDATE SET event = EXCLUDED.event
WHERE e.event <> EXCLUDED.event
"""
# Also made from the rows of the archive: a life that is archived as cancelled is not embedded, even
# if a second end completed it.
EMBEDDING_JOBS = """
INSERT INTO rqueue.embedding_jobs (task_id, life, queue)
SELECT t.id, t.life, t.queue
FROM new_lives n JOIN rqueue.task_lives t ON t.id = n.id AND t.life = n.life
WHERE t.queue = %s AND t.state = 'COMPLETED'
ON CONFLICT DO NOTHING
"""
