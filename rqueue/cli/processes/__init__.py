"""`rqueue up, worker, scheduler, archiver, notifier`: processes that serve."""
