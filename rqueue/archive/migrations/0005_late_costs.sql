-- What runs have cost that said so when they had lost their lease. It is told by itself, before the row
-- of its life or after it, and kept by itself: a row of task_lives has what the runs of that life said
-- while they held it, and the views add up both. A late cost counts where its life has a row.

CREATE TABLE rqueue.late_costs (
  task_id         uuid        NOT NULL,
  -- The run, and the number of its note: what is told twice is one row.
  token           text        NOT NULL,
  seq             bigint      NOT NULL,
  life            integer     NOT NULL,
  epoch           integer     NOT NULL,
  queue           text        NOT NULL,
  worker          text,
  model           text,
  cost_micro_usd  bigint      NOT NULL,
  tokens_input    bigint      NOT NULL,
  tokens_output   bigint      NOT NULL,
  at              timestamptz NOT NULL,
  PRIMARY KEY (task_id, token, seq)
);

CREATE INDEX late_costs_at ON rqueue.late_costs (queue, at);

-- Tokens are those of one life now, as money has been.
UPDATE rqueue.task_lives t SET
  tokens_input = greatest(0, t.tokens_input - p.tokens_input),
  tokens_output = greatest(0, t.tokens_output - p.tokens_output)
FROM rqueue.task_lives p
WHERE t.life > 1 AND p.id = t.id AND p.life = t.life - 1 AND (p.tokens_input > 0 OR p.tokens_output > 0);

UPDATE rqueue.agent_events e SET tokens_input = t.tokens_input, tokens_output = t.tokens_output
FROM rqueue.task_lives t
WHERE e.life > 1 AND t.id = e.task_id AND t.life = e.life;

-- What each life has cost, told in time or late.
CREATE VIEW rqueue.life_costs AS
SELECT
  t.id, t.life, t.queue,
  (t.cost_micro_usd + coalesce(l.cost_micro_usd, 0))::bigint AS cost_micro_usd,
  (t.tokens_input + coalesce(l.tokens_input, 0))::bigint AS tokens_input,
  (t.tokens_output + coalesce(l.tokens_output, 0))::bigint AS tokens_output
FROM rqueue.task_lives t
LEFT JOIN LATERAL (
  SELECT sum(c.cost_micro_usd) AS cost_micro_usd, sum(c.tokens_input) AS tokens_input,
    sum(c.tokens_output) AS tokens_output
  FROM rqueue.late_costs c WHERE c.task_id = t.id AND c.life = t.life) AS l ON true;

-- Tokens and money are those of all lives, as Redis tells them of a task.
CREATE OR REPLACE VIEW rqueue.tasks AS
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
  (SELECT sum(c.cost_micro_usd) FROM rqueue.life_costs c WHERE c.id = t.id) / 1000000.0 AS cost_usd,
  (SELECT jsonb_build_object('input', sum(c.tokens_input), 'output', sum(c.tokens_output))
    FROM rqueue.life_costs c WHERE c.id = t.id) AS tokens_used,
  (SELECT sum(c.tokens_input)::bigint FROM rqueue.life_costs c WHERE c.id = t.id) AS tokens_input,
  (SELECT sum(c.tokens_output)::bigint FROM rqueue.life_costs c WHERE c.id = t.id) AS tokens_output,
  coalesce(rqueue.as_number(rqueue.as_json(rqueue.kept_field(t.record, 'rank'))), 0) / 1000000.0
    AS dependency_boost,
  t.archived_at
FROM rqueue.task_lives t
WHERE NOT EXISTS (
  SELECT FROM rqueue.task_lives n WHERE n.id = t.id AND n.life > t.life);

-- What each life has cost beyond what its failed attempts say: that of the attempt that completed, or
-- was cancelled. Claims are counted over all lives: those of the lives before are left out.
CREATE OR REPLACE VIEW rqueue.last_attempts AS
SELECT
  t.id, t.life, t.queue, t.type, t.state, t.agent_name, t.worker, t.model, t.attempts, t.epoch,
  t.started_at, t.finished_at,
  t.cost_micro_usd > 0 OR t.tokens_input > 0 OR t.tokens_output > 0 AS has_cost,
  greatest(0, t.cost_micro_usd - coalesce(f.cost_micro_usd, 0)) AS cost_micro_usd,
  greatest(0, t.tokens_input + t.tokens_output - coalesce(f.tokens, 0)) AS tokens
FROM rqueue.task_lives t
LEFT JOIN LATERAL (
  SELECT p.epoch FROM rqueue.task_lives p
  WHERE t.life > 1 AND p.id = t.id AND p.life = t.life - 1) AS b ON true
LEFT JOIN LATERAL (
  SELECT sum(a.cost_micro_usd) AS cost_micro_usd, sum(a.tokens) AS tokens
  FROM rqueue.failed_attempts a
  WHERE a.task_id = t.id AND a.epoch <= t.epoch AND a.epoch > coalesce(b.epoch, -1)) AS f ON true;

-- Every attempt that has ended: those that failed, with what they told late, and the one that completed.
CREATE OR REPLACE VIEW rqueue.attempts AS
SELECT
  a.task_id, a.queue, a.type, a.epoch, a.attempt, 'failed' AS outcome, a.agent, a.reason, a.error,
  a.duration_sec, (a.cost_micro_usd + coalesce((
    SELECT sum(l.cost_micro_usd) FROM rqueue.late_costs l
    WHERE l.task_id = a.task_id AND l.epoch = a.epoch), 0)) / 1000000.0 AS cost_usd,
  a.tokens + coalesce((
    SELECT sum(l.tokens_input + l.tokens_output) FROM rqueue.late_costs l
    WHERE l.task_id = a.task_id AND l.epoch = a.epoch), 0) AS tokens,
  a.model, a.at
FROM rqueue.failed_attempts a
UNION ALL
SELECT
  t.id, t.queue, t.type, t.epoch, t.attempts + 1, 'completed', t.worker, NULL, NULL,
  extract(epoch FROM t.finished_at - t.started_at)::double precision,
  t.cost_micro_usd / 1000000.0, t.tokens, t.model, t.finished_at
FROM rqueue.last_attempts t
WHERE t.state = 'COMPLETED';

-- Money and tokens, by whom and for what, each of them once. `agent` is who the task was for, else
-- the worker that did it. What was told late is spent when it was told.
CREATE OR REPLACE VIEW rqueue.spending AS
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
WHERE t.has_cost AND (t.cost_micro_usd > 0 OR t.tokens > 0)
UNION ALL
SELECT
  l.task_id, l.queue, t.type, coalesce(t.agent_name, l.worker), l.worker, l.model, l.at,
  l.cost_micro_usd / 1000000.0, l.tokens_input + l.tokens_output
FROM rqueue.late_costs l
JOIN rqueue.task_lives t ON t.id = l.task_id AND t.life = l.life;

-- What agents did: an event for each life that ended, where the queue asks for it. What it has cost is
-- what the life has, told in time or late.
ALTER TABLE rqueue.agent_events RENAME TO life_events;

CREATE VIEW rqueue.agent_events AS
SELECT
  e.task_id, e.life, e.queue, e.agent, e.type, e.event, e.dag_id, e.at, e.duration_sec,
  (e.cost_micro_usd + coalesce((
    SELECT sum(l.cost_micro_usd) FROM rqueue.late_costs l
    WHERE l.task_id = e.task_id AND l.life = e.life), 0))::bigint AS cost_micro_usd,
  (e.tokens_input + coalesce((
    SELECT sum(l.tokens_input) FROM rqueue.late_costs l
    WHERE l.task_id = e.task_id AND l.life = e.life), 0))::bigint AS tokens_input,
  (e.tokens_output + coalesce((
    SELECT sum(l.tokens_output) FROM rqueue.late_costs l
    WHERE l.task_id = e.task_id AND l.life = e.life), 0))::bigint AS tokens_output,
  e.model, e.error
FROM rqueue.life_events e;
