-- read: no move
--
-- All stored data of tasks at one moment: of the first ones, until the reply is large enough, and
-- at least of one.
--
-- KEYS  1 ready       stream  its pending list says when a lease was last renewed
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       about how many bytes in this call
-- EACH  task          its id
-- FLAGS no-writes allow-oom
-- REPLY OK <now> [[hash, def, result, failures, waits, idle ms or "", notes, logs,
--       parents, names of steps]]...; an unknown task has an empty hash, and so has one whose
--       DAG is still being written

local ready = KEYS[1]
local root, limit = ARGV[1], tonumber(ARGV[2])
local first, stride = 3, 1

local reply, left = { "OK", string.format("%.0f", values.now_ms()) }, limit
for at = first, #ARGV, stride do
  if left <= 0 and at > first then
    break
  end
  local id = ARGV[at]
  local fields, flat = values.fields_of(root .. "task:" .. id)
  if not tasks.is_visible(root, fields) then
    fields, flat = {}, {}
  end
  local idle, state = "", fields.state
  if state == "CLAIMED" or state == "RUNNING" or state == "VALIDATING" then
    local held = redis.pcall("XPENDING", ready, "workers", fields.entry, fields.entry, 1)
    idle = held[1] and held[1][3] or ""
  end
  local row = { flat, definition.read(root, id, fields),
    redis.call("GET", root .. "result:" .. id) or "",
    redis.call("LRANGE", root .. "failures:" .. id, 0, -1),
    edges.waits_of(root, id), idle,
    redis.call("HGETALL", root .. "notes:" .. id),
    redis.call("LRANGE", root .. "logs:" .. id, 0, -1),
    tasks.has_flag(fields.flags, "p")
      and redis.call("LRANGE", root .. "parents:" .. id, 0, -1) or {},
    tasks.has_flag(fields.flags, "k") and redis.call("HKEYS", root .. "steps:" .. id) or {} }
  reply[#reply + 1] = row
  -- There are many ids, all of the same length: they are not measured one by one.
  left = left - #row[2] - #row[3] - values.bytes_of(row[4]) - values.bytes_of(row[7])
    - values.bytes_of(row[8])
    - values.bytes_of(row[10]) - 26 * (#row[5] + #row[9])
end
return reply
