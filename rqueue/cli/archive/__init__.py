"""`rqueue archive` and `rqueue archiver`: ended tasks in PostgreSQL."""
