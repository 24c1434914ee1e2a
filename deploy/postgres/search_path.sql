-- So that `SELECT * FROM tasks` means the archive's: its tables are in a schema of their own.
ALTER DATABASE rqueue SET search_path = rqueue, public;
