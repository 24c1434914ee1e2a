-- The library is checked as it is assembled, and each file by itself: python -m tools.lint_lua
std = "lua51"
read_globals = { "redis", "cjson" }
max_line_length = 100
