"""The archive: ended tasks in PostgreSQL. The only package that accesses PostgreSQL."""
