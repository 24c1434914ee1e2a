-- What has ended: one row for each life of a task, and beside it what the queue knows of attempts
-- that failed, DAGs, and rows that could not be kept as they should.

-- Ids are UUIDs of version 7: ordered by time, so a month of tasks is a range of ids, and (id, life)
-- is unique over all months.
CREATE TABLE rqueue.task_lives (
  id              uuid        NOT NULL,
  life            integer     NOT NULL,
  queue           text        NOT NULL,
  type            text        NOT NULL,
  state           text        NOT NULL,
  dag_id          uuid,
  parent_id       uuid,
  agent_name      text,
  worker          text,
  model           text,
  priority        double precision,
  attempts        integer     NOT NULL DEFAULT 0,
  reclaims        integer     NOT NULL DEFAULT 0,
  parks           integer     NOT NULL DEFAULT 0,
  epoch           integer     NOT NULL DEFAULT 0,
  created_at      timestamptz NOT NULL,
  started_at      timestamptz,
  finished_at     timestamptz NOT NULL,
  discarded_at    timestamptz,
  reason          text,
  error           text,
  cancel_reason   text,
  poison_pill     boolean     NOT NULL DEFAULT false,
  cost_micro_usd  bigint      NOT NULL DEFAULT 0,
  tokens_input    bigint      NOT NULL DEFAULT 0,
  tokens_output   bigint      NOT NULL DEFAULT 0,
  idempotency_sha text,
  external_sha    text,
  tags            text[],
  -- The raw bytes are always there; the jsonb beside them is not where PostgreSQL cannot hold it.
  definition      bytea       NOT NULL,
  spec            jsonb,
  result          bytea,
  output          jsonb,
  record          bytea       NOT NULL,
  digest          bytea       NOT NULL,
  archived_at     timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (id, life)
) PARTITION BY RANGE (id);

-- Ids that no month was made for: those of clocks that are far off.
CREATE TABLE rqueue.task_lives_other PARTITION OF rqueue.task_lives DEFAULT;

CREATE INDEX task_lives_finished ON rqueue.task_lives (queue, finished_at);
CREATE INDEX task_lives_type ON rqueue.task_lives (queue, type, finished_at);
CREATE INDEX task_lives_dag ON rqueue.task_lives (dag_id) WHERE dag_id IS NOT NULL;
CREATE INDEX task_lives_dead ON rqueue.task_lives (queue, finished_at) WHERE state = 'DEAD_LETTERED';
CREATE INDEX task_lives_worker ON rqueue.task_lives (worker, finished_at)
  WHERE cost_micro_usd > 0 OR attempts > 0;
CREATE INDEX task_lives_tags ON rqueue.task_lives USING gin (tags) WHERE tags IS NOT NULL;
CREATE INDEX task_lives_idempotency ON rqueue.task_lives (idempotency_sha)
  WHERE idempotency_sha IS NOT NULL;
CREATE INDEX task_lives_external ON rqueue.task_lives (external_sha) WHERE external_sha IS NOT NULL;

-- An attempt that failed. A task keeps its failures over all its lives; epochs count its claims.
CREATE TABLE rqueue.failed_attempts (
  task_id         uuid        NOT NULL,
  epoch           integer     NOT NULL,
  attempt         integer     NOT NULL,
  queue           text        NOT NULL,
  type            text        NOT NULL,
  agent           text,
  reason          text        NOT NULL,
  error           text        NOT NULL,
  duration_sec    double precision,
  cost_micro_usd  bigint      NOT NULL DEFAULT 0,
  tokens          bigint      NOT NULL DEFAULT 0,
  model           text,
  at              timestamptz,
  PRIMARY KEY (task_id, epoch, attempt)
);

CREATE INDEX failed_attempts_at ON rqueue.failed_attempts (queue, at);

CREATE TABLE rqueue.dags (
  id              uuid        PRIMARY KEY,
  queue           text        NOT NULL,
  title           text,
  status          text        NOT NULL,
  created_by      text,
  created_at      timestamptz,
  finished_at     timestamptz,
  tasks           integer,
  dead            integer,
  cancelled       integer,
  budget_micro_usd bigint,
  spent_micro_usd bigint      NOT NULL DEFAULT 0,
  facts           jsonb       NOT NULL,
  archived_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX dags_finished ON rqueue.dags (queue, finished_at);

-- What could not be kept as a row: nothing that came out of the outbox is thrown away.
CREATE TABLE rqueue.quarantine (
  id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue           text        NOT NULL,
  entry           text        NOT NULL,
  task            text        NOT NULL,
  line            bytea       NOT NULL,
  kept            bytea       NOT NULL,
  reason          text        NOT NULL,
  at              timestamptz NOT NULL DEFAULT now(),
  UNIQUE (queue, entry, task)
);

-- A second end of a life whose first was another: the first one stands.
CREATE TABLE rqueue.conflicts (
  id              uuid        NOT NULL,
  life            integer     NOT NULL,
  queue           text        NOT NULL,
  digest          bytea       NOT NULL,
  state           text        NOT NULL,
  finished_at     timestamptz NOT NULL,
  definition      bytea       NOT NULL,
  result          bytea,
  record          bytea       NOT NULL,
  at              timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (id, life, digest)
);
