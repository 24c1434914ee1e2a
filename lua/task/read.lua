-- read: no move
--
-- All that is known of tasks, at one moment: of the first ones, until they are too much for one
-- call, and at least of one.
--
-- KEYS  1 ready       stream  its pending list says when a holder was last heard of
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       about how many bytes in this call
-- EACH  task          its id
-- TOUCHES task:<id> def:<id> result:<id> failures:<id> waits:<id> notes:<id> logs:<id> parents:<id>
--       steps:<id> dag:<dag>
-- FLAGS no-writes allow-oom
-- REPLY OK <now> [[hash, def, result, failures, waits, idle ms or "", notes, logs,
--       parents, names of steps]]...; an unknown task has an empty hash, and so has one whose
--       DAG is still being written

-- @include now_ms
-- @include fields_of
-- @include def_of
-- @include is_visible
-- @include flagged
-- @include bytes_of
-- @include waits_of

local ready = KEYS[1]
local root, limit = ARGV[1], tonumber(ARGV[2])
local first, stride = 3, 1

local reply, left = { "OK", string.format("%.0f", now_ms()) }, limit
for at = first, #ARGV, stride do
  if left <= 0 and at > first then
    break
  end
  local id = ARGV[at]
  local fields, flat = fields_of(root .. "task:" .. id)
  if not is_visible(root, fields) then
    fields, flat = {}, {}
  end
  local idle, state = "", fields.state
  if state == "CLAIMED" or state == "RUNNING" or state == "VALIDATING" then
    local held = redis.pcall("XPENDING", ready, "workers", fields.entry, fields.entry, 1)
    idle = held[1] and held[1][3] or ""
  end
  local row = { flat, def_of(root, id, fields),
    redis.call("GET", root .. "result:" .. id) or "",
    redis.call("LRANGE", root .. "failures:" .. id, 0, -1),
    waits_of(root, id), idle,
    redis.call("HGETALL", root .. "notes:" .. id),
    redis.call("LRANGE", root .. "logs:" .. id, 0, -1),
    flagged(fields.flags, "p") and redis.call("LRANGE", root .. "parents:" .. id, 0, -1) or {},
    flagged(fields.flags, "k") and redis.call("HKEYS", root .. "steps:" .. id) or {} }
  reply[#reply + 1] = row
  -- Ids are many and small: they are not looked at one by one.
  left = left - #row[2] - #row[3] - bytes_of(row[4]) - bytes_of(row[7]) - bytes_of(row[8])
    - bytes_of(row[10]) - 26 * (#row[5] + #row[9])
end
return reply
