"""Reads the Lua of the moves: what each touches in Redis, and by which commands."""
