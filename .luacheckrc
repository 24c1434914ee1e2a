-- Scripts are checked as the server sees them, includes pasted in: python -m tools.lint_lua
std = "lua51"
read_globals = { "KEYS", "ARGV", "redis", "cjson" }
max_line_length = 100
-- A function that is included rarely is wrapped under its own name.
ignore = { "431" }
