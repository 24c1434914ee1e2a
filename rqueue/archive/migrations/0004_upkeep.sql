-- What the archive's upkeep needs: late rows are found by when they were written, minutes carry what
-- hours and days are made of, and an embedding may wait before it is tried again.

CREATE INDEX task_lives_archived ON rqueue.task_lives USING brin (archived_at);

ALTER TABLE rqueue.task_queue_metrics
  -- agent -> [failed attempts, all attempts]: rates alone cannot be added up.
  ADD COLUMN attempts_per_agent jsonb NOT NULL DEFAULT '{}',
  -- When the row was last written, and when its counter was last read, by PostgreSQL's clock.
  ADD COLUMN recorded_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN sampled_at timestamptz;

CREATE INDEX task_queue_metrics_sampled ON rqueue.task_queue_metrics (queue, sampled_at)
  WHERE sampled_at IS NOT NULL;
CREATE INDEX task_queue_metrics_recorded ON rqueue.task_queue_metrics (queue, recorded_at)
  WHERE period = 'minute';

-- The error that a reviewer decided about, cut.
ALTER TABLE rqueue.dead_letter_reviews ADD COLUMN error text;
