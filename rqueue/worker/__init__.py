"""The worker: it claims tasks, runs their handlers and settles what they came to."""
