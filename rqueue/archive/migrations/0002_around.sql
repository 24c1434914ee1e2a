-- What goes along with ended tasks: what agents did, what is to be embedded, what was counted, and
-- what reviewers decided.

-- One row for each life that ended, written with it, where the queue asks for it.
CREATE TABLE rqueue.agent_events (
  task_id         uuid        NOT NULL,
  life            integer     NOT NULL,
  queue           text        NOT NULL,
  agent           text        NOT NULL,
  type            text        NOT NULL,
  event           text        NOT NULL,
  dag_id          uuid,
  at              timestamptz NOT NULL,
  duration_sec    double precision,
  cost_micro_usd  bigint      NOT NULL DEFAULT 0,
  tokens_input    bigint      NOT NULL DEFAULT 0,
  tokens_output   bigint      NOT NULL DEFAULT 0,
  model           text,
  error           text,
  PRIMARY KEY (task_id, life)
);

CREATE INDEX agent_events_agent ON rqueue.agent_events (agent, at);
CREATE INDEX agent_events_at ON rqueue.agent_events (queue, at);

-- What an embedding worker takes up: one row for each completed life, written with it, where the
-- queue asks for it.
CREATE TABLE rqueue.embedding_jobs (
  id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task_id         uuid        NOT NULL,
  life            integer     NOT NULL,
  queue           text        NOT NULL,
  status          text        NOT NULL DEFAULT 'pending'
    CHECK (status IN ('pending', 'claimed', 'done', 'failed')),
  attempts        integer     NOT NULL DEFAULT 0,
  claimed_by      text,
  token           text,
  claimed_until   timestamptz,
  error           text,
  embedding       double precision[],
  created_at      timestamptz NOT NULL DEFAULT now(),
  finished_at     timestamptz,
  UNIQUE (task_id, life)
);

CREATE INDEX embedding_jobs_open ON rqueue.embedding_jobs (queue, id)
  WHERE status IN ('pending', 'claimed');

-- What was counted in a minute, an hour, a day.
CREATE TABLE rqueue.task_queue_metrics (
  queue                  text        NOT NULL,
  period                 text        NOT NULL CHECK (period IN ('minute', 'hour', 'day')),
  start                  timestamptz NOT NULL,
  tasks_created          bigint      NOT NULL DEFAULT 0,
  tasks_completed        bigint      NOT NULL DEFAULT 0,
  tasks_failed           bigint      NOT NULL DEFAULT 0,
  average_latency        double precision,
  worker_heartbeat_delay double precision,
  error_rates_per_agent  jsonb       NOT NULL DEFAULT '{}',
  -- The counter of submitted tasks when the minute was written: the next one counts on from it.
  submitted_total        bigint,
  PRIMARY KEY (queue, period, start)
);

-- What reviewers decided about dead tasks, and why.
CREATE TABLE rqueue.dead_letter_reviews (
  queue           text        NOT NULL,
  entry           text        NOT NULL,
  task_id         uuid        NOT NULL,
  life            integer     NOT NULL,
  at              timestamptz NOT NULL,
  reviewer        text,
  resolution      text        NOT NULL,
  cause           text,
  note            text,
  not_before      timestamptz,
  diff            text,
  type            text,
  reason          text,
  fingerprint     text,
  PRIMARY KEY (queue, entry, task_id)
);

CREATE INDEX dead_letter_reviews_at ON rqueue.dead_letter_reviews (queue, at);
CREATE INDEX dead_letter_reviews_task ON rqueue.dead_letter_reviews (task_id);
