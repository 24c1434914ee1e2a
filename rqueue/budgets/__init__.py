"""Budgets of a queue per day, of a worker and of a DAG."""
