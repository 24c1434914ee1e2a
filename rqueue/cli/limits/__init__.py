"""`rqueue breaker, slowdown, budget`: limits on task types, limit keys and costs."""
