"""Processes: the scheduler election, worker processes, the supervisor, probes."""
