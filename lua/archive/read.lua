-- read: no move
--
-- All that is kept of tasks that have ended, for the archive: of the first ones, until they are
-- too much for one call, and at least of one.
--
-- KEYS  1 outbox      stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       about how many bytes in this call
--       3 joined      1: the hash of a plain task comes as one text, its words joined by NULs
-- EACH  task          its id
-- FLAGS no-writes allow-oom
-- REPLY OK [[hash, its words, def, result, failures, notes, logs, parents, names of steps]]...;
--       def is empty where its pieces stand in the hash, nothing follows the result of a plain
--       task, an unknown one has an empty hash

local root, limit, joined = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local first, stride = 4, 1

local none = {}

-- What a flag says is there: nothing else is looked for.
local function kept(flags, letter, command, name, ...)
  return tasks.has_flag(flags, letter) and redis.call(command, root .. name, ...) or none
end

local function add_beside(row, id, flags)
  row[5] = kept(flags, "f", "LRANGE", "failures:" .. id, 0, -1)
  row[6] = kept(flags, "n", "HGETALL", "notes:" .. id)
  row[7] = kept(flags, "n", "LRANGE", "logs:" .. id, 0, -1)
  row[8] = kept(flags, "p", "LRANGE", "parents:" .. id, 0, -1)
  row[9] = kept(flags, "k", "HKEYS", "steps:" .. id)
  return values.bytes_of(row[5]) + values.bytes_of(row[6]) + values.bytes_of(row[7])
    + values.bytes_of(row[9]) + 26 * #row[8]
end

local reply, left = { "OK" }, limit
for at = first, #ARGV, stride do
  if left <= 0 and at > first then
    break
  end
  local id = ARGV[at]
  local flat = redis.call("HGETALL", root .. "task:" .. id)
  local flags, has_def
  for i = 1, #flat, 2 do
    if flat[i] == "flags" then
      flags = flat[i + 1]
    elseif flat[i] == "def0" then
      has_def = true
    end
  end
  local def = not has_def and redis.call("GET", root .. "def:" .. id) or ""
  local row = { flat, #flat, def, redis.call("GET", root .. "result:" .. id) or "" }
  left = left - #row[3] - #row[4]
  if flags then
    left = left - add_beside(row, id, flags)
  elseif joined then
    -- One text instead of twenty: that is most of what reading a plain task costs.
    row[1] = table.concat(flat, "\0")
  end
  reply[#reply + 1] = row
end
return reply
