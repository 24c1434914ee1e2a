"""Registered workers, failing workers, unserved tasks, and roles."""
