-- A task whose key was free when it began is not known by that key: it keeps no later one from being
-- taken, and need not be kept for as long as keys count.
UPDATE rqueue.task_lives SET idempotency_sha = NULL
WHERE idempotency_sha IS NOT NULL AND spec ->> 'unique' = 'until_start';
