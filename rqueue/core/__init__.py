"""Moves of a task, one module for each noun. A function is a typed call of the Lua library."""
