-- What reviewers decide about a dead task, they mostly decide when its row is there: a row is amended
-- only where the task is given up. So whether it was decided about, and how, is asked of the decisions;
-- the record says what is known without one.

-- A task that was given up is cancelled since then, and has been dead before.
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
  CASE t.state WHEN 'CANCELLED' THEN coalesce(t.discarded_at, t.finished_at) END AS cancelled_at,
  CASE WHEN t.state = 'DEAD_LETTERED' OR t.discarded_at IS NOT NULL THEN t.finished_at END
    AS dead_lettered_at,
  t.discarded_at,
  t.cancel_reason,
  t.error AS last_error,
  CASE WHEN t.state = 'COMPLETED' AND (t.attempts > 0 OR t.reclaims > 0 OR t.parks > 0)
    THEN rqueue.kept_field(t.record, 'reason') ELSE t.reason END AS failure_reason,
  rqueue.failures(t.record) AS failure_history,
  t.poison_pill,
  EXISTS (SELECT FROM rqueue.dead_letter_reviews r WHERE r.task_id = t.id AND r.life = t.life)
    OR rqueue.kept_field(t.record, 'reviewed') IS NOT NULL AS reviewed,
  coalesce(
    (SELECT r.resolution FROM rqueue.dead_letter_reviews r
     WHERE r.task_id = t.id AND r.life = t.life
     -- The entry of a stream: a number behind another, the longer the later.
     ORDER BY r.at DESC, length(r.entry) DESC, r.entry DESC LIMIT 1),
    rqueue.kept_field(t.record, 'resolution')) AS resolution,
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
