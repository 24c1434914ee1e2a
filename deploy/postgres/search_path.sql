-- The archive's tables are in the schema rqueue; with this, `SELECT * FROM tasks` finds them.
ALTER DATABASE rqueue SET search_path = rqueue, public;
