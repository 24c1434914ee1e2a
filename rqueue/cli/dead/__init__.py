"""`rqueue dead`: dead tasks, their clusters, and decisions about them."""
