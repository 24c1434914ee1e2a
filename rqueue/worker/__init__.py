"""The worker: it claims tasks, runs their handlers and settles the outcomes."""
