"""Static analysis of the Lua code: the keys that each move touches, and by which commands."""
