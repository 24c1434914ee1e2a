"""The archive: what has ended, kept for ever in PostgreSQL. The only room that speaks to it."""
