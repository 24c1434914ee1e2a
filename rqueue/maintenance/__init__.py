"""Background services of a queue: promoter, reaper, rescorer, janitor, sweeper."""
