"""`rqueue dag`: submits, shows, watches and changes DAGs."""
