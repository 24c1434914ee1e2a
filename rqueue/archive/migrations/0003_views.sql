-- What people ask: tasks, attempts and spending under the names of the model, and the lists and rows
-- of the documents A and C. Definitions may be anyone's bytes: whatever stands in one, it keeps no
-- other row from being read.

-- Ids as people write them, and back: 128 bits are a UUID and, in Crockford's base 32, a ULID.
CREATE FUNCTION rqueue.ulid(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ',
    substring(B'00' || ('x' || replace(id::text, '-', ''))::bit(128)
      FROM 5 * place + 1 FOR 5)::bit(5)::integer + 1, 1), '' ORDER BY place)
  FROM generate_series(0, 25) AS place
$$;

-- The UUID of a task's or a DAG's id in any form, for look-ups that use the keys; NULL for no id.
CREATE FUNCTION rqueue.id(given text) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE
    WHEN given ~* '^([a-z]+_)?[0-7][0-9A-HJKMNP-TV-Z]{25}$' THEN (
      SELECT encode(string_agg(set_byte('\x00', 0, eight::bit(8)::integer), '' ORDER BY place), 'hex')
      FROM (
        SELECT place, substring(bits FROM 8 * place + 3 FOR 8) AS eight
        FROM generate_series(0, 15) AS place, (
          SELECT string_agg((strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', letter) - 1)::bit(5)::text, ''
            ORDER BY at)::bit(130) AS bits
          FROM regexp_split_to_table(upper(right(given, 26)), '') WITH ORDINALITY AS l (letter, at)
        ) AS b
      ) AS e)::uuid
    WHEN given ~* '^([a-z]+_)?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$'
      THEN regexp_replace(given, '^[a-zA-Z]+_', '')::uuid
  END
$$;

-- Text that should be JSON, or a time: NULL where it is none that can be held.
CREATE FUNCTION rqueue.as_json(given text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN given::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
  RETURN NULL;
END
$$;

CREATE FUNCTION rqueue.as_time(given text) RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN CASE WHEN given ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}' THEN given::timestamptz END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;

-- A number of a definition; NULL where something else stands there.
CREATE FUNCTION rqueue.as_number(given jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE jsonb_typeof(given) WHEN 'number' THEN given::numeric END
$$;

CREATE FUNCTION rqueue.as_list(given jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE jsonb_typeof(given) WHEN 'array' THEN given ELSE '[]' END
$$;

-- What stood beside a task, by its name: a field of its hash, a note, a list.
CREATE FUNCTION rqueue.as_record(given bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN convert_from(given, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
  RETURN NULL;
END
$$;

CREATE FUNCTION rqueue.kept_field(record bytea, name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT rqueue.as_record(record) -> 'task' ->> name
$$;

CREATE FUNCTION rqueue.kept_note(record bytea, name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT notes ->> (at::integer)
  FROM rqueue.as_list(rqueue.as_record(record) -> 'notes') AS notes,
    jsonb_array_elements_text(notes) WITH ORDINALITY AS n (word, at)
  WHERE word = name AND at % 2 = 1
  LIMIT 1
$$;

CREATE FUNCTION rqueue.kept_list(record bytea, name text) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT rqueue.as_list(rqueue.as_record(record) -> name)
$$;

CREATE FUNCTION rqueue.failures(record bytea) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT coalesce(jsonb_agg(rqueue.as_json(failure) ORDER BY at), '[]')
  FROM jsonb_array_elements_text(rqueue.kept_list(record, 'failures'))
    WITH ORDINALITY AS f (failure, at)
$$;

-- What a task comes after: its parents in its DAG, then those that its definition names.
CREATE FUNCTION rqueue.parents(record bytea, spec jsonb, in_dag boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(jsonb_agg(parent ORDER BY first), '[]')
  FROM (
    SELECT parent, min(at) AS first
    FROM (
      SELECT 'task_' || word AS parent, row_number() OVER (ORDER BY key, place) AS at
      FROM jsonb_each_text(
          CASE WHEN in_dag THEN rqueue.as_record(record) -> 'task' END) AS h,
        regexp_split_to_table(value, ' ') WITH ORDINALITY AS w (word, place)
      WHERE key ~ '^up[0-9]*$' AND word <> ''
      UNION ALL
      SELECT 'task_' || word, 1000000 + at
      FROM jsonb_array_elements_text(
        CASE WHEN in_dag THEN rqueue.kept_list(record, 'parents') END)
        WITH ORDINALITY AS p (word, at)
      UNION ALL
      SELECT word, 2000000 + at
      FROM jsonb_array_elements_text(rqueue.as_list(spec -> 'depends_on'))
        WITH ORDINALITY AS d (word, at)
    ) AS each
    GROUP BY parent
  ) AS once
$$;

-- A task as it ended last, under the names of the model. `id`, `dag` and `parent_id` are UUIDs with
-- indexes, `task_id` and `dag_id` the same as people write them. What only a task has that has not
-- ended is not here: its claim, what it waits for, when it may run.
CREATE VIEW rqueue.tasks AS
SELECT
  t.id,
  'task_' || rqueue.ulid(t.id) AS task_id,
  t.queue,
  t.state AS status,
  t.state,
  t.life,
  t.type,
  CASE WHEN t.spec IS NOT NULL THEN coalesce(t.spec -> 'p', '{}') END AS payload,
  t.output AS result,
  CASE WHEN t.output IS NULL
    THEN substring(encode(t.result, 'escape') FROM '^(artifact:art_[0-9A-Z]{26}) ') END
    AS result_artifact,
  coalesce(rqueue.as_json('[' || replace(rtrim(
    rqueue.kept_note(t.record, 'artifacts'), E'\n'), E'\n', ',') || ']'), '[]') AS attached,
  t.spec ->> 'title' AS title,
  t.spec ->> 'prompt' AS prompt,
  rqueue.as_list(t.spec -> 'context_refs') AS context_refs,
  t.priority,
  rqueue.as_number(t.spec -> 'priority_boost_per_minute') AS priority_boost_per_minute,
  rqueue.as_time(t.spec ->> 'deadline') AS deadline,
  coalesce(t.spec ->> 'on_deadline', 'run') AS on_deadline,
  rqueue.as_number(t.spec -> 'expires_sec') AS expires_sec,
  rqueue.as_number(t.spec -> 'expected_duration_sec') AS expected_duration_sec,
  rqueue.as_number(t.spec -> 'delay_sec') AS delay_sec,
  rqueue.as_time(t.spec ->> 'at') AS at,
  t.agent_name,
  t.worker,
  t.model,
  rqueue.as_list(t.spec -> 'required_capabilities') AS required_capabilities,
  t.spec ->> 'limit_key' AS limit_key,
  t.parent_id,
  t.dag_id AS dag,
  coalesce(t.spec ->> 'dag_id', 'dag_' || rqueue.ulid(t.dag_id)) AS dag_id,
  t.spec ->> 'name' AS name,
  rqueue.parents(t.record, t.spec, t.dag_id IS NOT NULL) AS depends_on,
  coalesce(t.spec ->> 'trigger', 'all_success') AS trigger,
  coalesce(t.spec -> 'inputs', '{}') AS inputs,
  t.spec ->> 'idempotency_key' AS idempotency_key,
  t.spec ->> 'dedupe' AS dedupe,
  rqueue.as_list(t.spec -> 'dedupe_fields') AS dedupe_fields,
  coalesce(t.spec ->> 'if_exists', 'keep') AS if_exists,
  coalesce(t.spec ->> 'unique', 'until_done') AS "unique",
  t.spec ->> 'external_id' AS external_id,
  coalesce(rqueue.as_number(t.spec -> 'max_attempts'), 3) AS max_attempts,
  t.spec -> 'retry' AS retry,
  rqueue.as_number(t.spec -> 'timeout_sec') AS timeout_sec,
  rqueue.as_number(t.spec -> 'max_duration_sec') AS max_duration_sec,
  rqueue.as_number(t.spec -> 'heartbeat_interval_sec') AS heartbeat_interval_sec,
  rqueue.as_number(t.spec -> 'max_cost_usd') AS max_cost_usd,
  rqueue.as_number(t.spec -> 'estimated_cost_usd') AS estimated_cost_usd,
  rqueue.as_list(t.spec -> 'model_preferences') AS model_preferences,
  rqueue.as_list(t.spec -> 'fallback_models') AS fallback_models,
  t.spec ->> 'output_type' AS output_type,
  coalesce(t.spec -> 'validation', '"none"') AS validation,
  t.spec -> 'validation_schema' AS validation_schema,
  rqueue.as_list(t.spec -> 'artifacts') AS artifacts,
  rqueue.as_number(t.spec -> 'result_ttl_sec') AS result_ttl_sec,
  t.spec ->> 'created_by' AS created_by,
  coalesce(t.tags, '{}') AS tags,
  coalesce(t.spec -> 'headers', '{}') AS headers,
  t.attempts,
  t.reclaims,
  t.parks,
  t.epoch,
  t.created_at,
  t.started_at,
  t.finished_at,
  t.finished_at AS updated_at,
  CASE t.state WHEN 'COMPLETED' THEN t.finished_at END AS completed_at,
  CASE t.state WHEN 'CANCELLED' THEN t.finished_at END AS cancelled_at,
  CASE WHEN t.state = 'DEAD_LETTERED' OR t.discarded_at IS NOT NULL THEN t.finished_at END
    AS dead_lettered_at,
  t.discarded_at,
  t.cancel_reason,
  t.error AS last_error,
  CASE WHEN t.state = 'COMPLETED' AND (t.attempts > 0 OR t.reclaims > 0 OR t.parks > 0)
    THEN rqueue.kept_field(t.record, 'reason') ELSE t.reason END AS failure_reason,
  rqueue.failures(t.record) AS failure_history,
  t.poison_pill,
  rqueue.kept_field(t.record, 'reviewed') IS NOT NULL AS reviewed,
  rqueue.kept_field(t.record, 'resolution') AS resolution,
  string_to_array(rqueue.kept_field(t.record, 'failed_by'), ' ') AS failed_by,
  rqueue.as_json(rqueue.kept_note(t.record, 'progress')) AS progress,
  rqueue.as_json(rqueue.kept_note(t.record, 'checkpoint')) AS checkpoint,
  rqueue.kept_list(t.record, 'logs') AS logs,
  rqueue.kept_list(t.record, 'steps') AS steps,
  CASE WHEN t.life = 1 THEN t.cost_micro_usd ELSE (
    SELECT sum(l.cost_micro_usd) FROM rqueue.task_lives l WHERE l.id = t.id) END / 1000000.0
    AS cost_usd,
  jsonb_build_object('input', t.tokens_input, 'output', t.tokens_output) AS tokens_used,
  t.tokens_input,
  t.tokens_output,
  coalesce(rqueue.as_number(rqueue.as_json(rqueue.kept_field(t.record, 'rank'))), 0) / 1000000.0
    AS dependency_boost,
  t.archived_at
FROM rqueue.task_lives t
WHERE NOT EXISTS (
  SELECT FROM rqueue.task_lives n WHERE n.id = t.id AND n.life > t.life);

-- What each life has cost beyond what its failed attempts say: that of the attempt that completed, or
-- was cancelled. Tokens and failures are counted over all lives, claims too: the lives before are
-- taken off.
CREATE VIEW rqueue.last_attempts AS
SELECT
  t.id, t.life, t.queue, t.type, t.state, t.agent_name, t.worker, t.model, t.attempts, t.epoch,
  t.started_at, t.finished_at,
  t.cost_micro_usd > 0 OR t.tokens_input > 0 OR t.tokens_output > 0 AS has_cost,
  greatest(0, t.cost_micro_usd - coalesce(f.cost_micro_usd, 0)) AS cost_micro_usd,
  greatest(0, t.tokens_input + t.tokens_output - coalesce(b.tokens, 0) - coalesce(f.tokens, 0))
    AS tokens
FROM rqueue.task_lives t
LEFT JOIN LATERAL (
  SELECT p.epoch, p.tokens_input + p.tokens_output AS tokens
  FROM rqueue.task_lives p WHERE t.life > 1 AND p.id = t.id AND p.life = t.life - 1) AS b ON true
LEFT JOIN LATERAL (
  SELECT sum(a.cost_micro_usd) AS cost_micro_usd, sum(a.tokens) AS tokens
  FROM rqueue.failed_attempts a
  WHERE a.task_id = t.id AND a.epoch <= t.epoch AND a.epoch > coalesce(b.epoch, -1)) AS f ON true;

-- Every attempt that has ended: those that failed, and the one that completed.
CREATE VIEW rqueue.attempts AS
SELECT
  a.task_id, a.queue, a.type, a.epoch, a.attempt, 'failed' AS outcome, a.agent, a.reason, a.error,
  a.duration_sec, a.cost_micro_usd / 1000000.0 AS cost_usd, a.tokens, a.model, a.at
FROM rqueue.failed_attempts a
UNION ALL
SELECT
  t.id, t.queue, t.type, t.epoch, t.attempts + 1, 'completed', t.worker, NULL, NULL,
  extract(epoch FROM t.finished_at - t.started_at)::double precision,
  t.cost_micro_usd / 1000000.0, t.tokens, t.model, t.finished_at
FROM rqueue.last_attempts t
WHERE t.state = 'COMPLETED';

-- Money and tokens, by whom and for what, each of them once. `agent` is who the task was for, else
-- the worker that did it.
CREATE VIEW rqueue.spending AS
SELECT
  a.task_id, a.queue, a.type, coalesce(t.agent_name, a.agent) AS agent, a.agent AS worker, a.model,
  coalesce(a.at, t.finished_at) AS at, a.cost_micro_usd / 1000000.0 AS cost_usd, a.tokens
FROM rqueue.failed_attempts a
JOIN LATERAL (
  SELECT l.agent_name, l.finished_at FROM rqueue.task_lives l
  WHERE l.id = a.task_id ORDER BY l.life DESC LIMIT 1) AS t ON true
WHERE a.cost_micro_usd > 0 OR a.tokens > 0
UNION ALL
SELECT
  t.id, t.queue, t.type, coalesce(t.agent_name, t.worker), t.worker, t.model, t.finished_at,
  t.cost_micro_usd / 1000000.0, t.tokens
FROM rqueue.last_attempts t
WHERE t.has_cost AND (t.cost_micro_usd > 0 OR t.tokens > 0);

-- Document A: its fields, and `list`, the file that the task would stand in.
CREATE VIEW rqueue.reference_tasks AS
SELECT
  CASE t.state WHEN 'COMPLETED' THEN 'completed' WHEN 'CANCELLED' THEN 'cancelled'
    ELSE 'dead-letter' END AS list,
  coalesce(rqueue.id(t.external_id)::text, t.external_id, t.id::text) AS id,
  t.idempotency_key AS "idempotencyKey",
  t.type,
  10 - least(9, greatest(0, ceil(t.priority / 10 - 0.5)))::integer AS priority,
  (SELECT coalesce(jsonb_agg(coalesce(rqueue.id(parent)::text, parent) ORDER BY at), '[]')
    FROM jsonb_array_elements_text(t.depends_on) WITH ORDINALITY AS d (parent, at))
    AS dependencies,
  t.payload,
  CASE t.state WHEN 'COMPLETED' THEN 'completed' WHEN 'CANCELLED' THEN 'cancelled'
    ELSE 'dead-letter' END AS status,
  t.created_at AS "createdAt",
  NULL::text AS "claimedBy",
  NULL::timestamptz AS "claimedAt",
  NULL::timestamptz AS "availableAt",
  coalesce(least(t.timeout_sec, t.max_duration_sec), 3600) AS timeout,
  t.attempts AS retries,
  t.max_attempts AS "maxRetries",
  CASE WHEN t.retry IS NULL THEN 60
    ELSE coalesce(rqueue.as_number(t.retry -> 'initial_delay_sec'), 10) END AS "backoffSeconds",
  t.last_error AS "lastError",
  t.completed_at AS "completedAt",
  t.cancelled_at AS "cancelledAt",
  t.cancel_reason AS "cancelReason",
  CASE WHEN t.state = 'CANCELLED' THEN NULL
    ELSE CASE WHEN jsonb_typeof(t.result) = 'object' AND t.result ? 'decisionReport'
        THEN '{"output": null}' || t.result
        ELSE jsonb_build_object(
          'output', CASE WHEN t.result IN ('null', '""', '[]', '{}') THEN 'null' ELSE t.result END,
          'decisionReport', NULL) END
      || jsonb_build_object('status', CASE t.state WHEN 'COMPLETED' THEN 'success' ELSE 'failed' END)
    END AS result,
  t.queue,
  t.id AS task_id
FROM rqueue.tasks t;

CREATE VIEW rqueue.completed AS SELECT * FROM rqueue.reference_tasks WHERE list = 'completed';
CREATE VIEW rqueue.dead_letter AS SELECT * FROM rqueue.reference_tasks WHERE list = 'dead-letter';
CREATE VIEW rqueue.cancelled AS SELECT * FROM rqueue.reference_tasks WHERE list = 'cancelled';

-- Document C: the columns of its table, in its order; then what it has no column for.
CREATE VIEW rqueue.automechanica_tasks AS
SELECT
  t.id,
  coalesce(rqueue.id(t.dag_id), t.dag) AS workflow_id,
  t.agent_name,
  t.type AS task_type,
  t.payload,
  CASE WHEN t.priority <= 10 THEN 0 WHEN t.priority <= 32.5 THEN 1 WHEN t.priority <= 57.5 THEN 2
    WHEN t.priority IS NOT NULL THEN 3 END AS priority,
  CASE t.state WHEN 'COMPLETED' THEN 'completed' WHEN 'CANCELLED' THEN 'cancelled'
    ELSE 'dead' END AS status,
  t.attempts,
  t.max_attempts,
  t.created_at AS available_at,
  NULL::text AS lease_owner,
  NULL::timestamptz AS lease_expires_at,
  CASE WHEN t.failure_reason IS NOT NULL OR t.last_error IS NOT NULL
    THEN jsonb_build_object('reason', t.failure_reason, 'message', t.last_error) END AS error_info,
  t.created_at,
  t.updated_at,
  t.external_id,
  t.dag_id AS dag_name,
  t.queue
FROM rqueue.tasks t;

-- What was cancelled, and what has cost something, are few among what completed.
CREATE INDEX task_lives_cancelled ON rqueue.task_lives (queue, finished_at)
  WHERE state = 'CANCELLED';
CREATE INDEX task_lives_spent ON rqueue.task_lives (queue, finished_at)
  WHERE cost_micro_usd > 0 OR tokens_input > 0 OR tokens_output > 0;
CREATE INDEX task_lives_parent ON rqueue.task_lives (parent_id) WHERE parent_id IS NOT NULL;
