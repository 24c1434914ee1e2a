"""Moves of a task, one module per noun; each function is a typed call of the Lua library."""
