-- read: no move
--
-- Returns what is stored of ended tasks, for the archive: of the first tasks of the call, up to
-- about `limit` bytes, and at least of one.
--
-- KEYS  1 outbox      stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       about how many bytes one call returns
--       3 joined      1: the hash of a plain task is returned as one text, its words joined by NULs
-- EACH  task          its id
-- FLAGS no-writes allow-oom
-- REPLY OK [[hash, its length, def, result, failures, notes, logs, parents, names of steps]]...;
--       def is empty where its pieces are in the hash; the row of a plain task ends with result;
--       an unknown task has an empty hash

local root, limit, joined = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local first, stride = 4, 1

local none = {}

-- Reads a key beside the hash only if the task's flags have its letter.
local function read_flagged(flags, letter, command, name, ...)
  return tasks.has_flag(flags, letter) and redis.call(command, root .. name, ...) or none
end

local function add_beside(row, id, flags)
  row[5] = read_flagged(flags, "f", "LRANGE", "failures:" .. id, 0, -1)
  row[6] = read_flagged(flags, "n", "HGETALL", "notes:" .. id)
  row[7] = read_flagged(flags, "n", "LRANGE", "logs:" .. id, 0, -1)
  row[8] = read_flagged(flags, "p", "LRANGE", "parents:" .. id, 0, -1)
  row[9] = read_flagged(flags, "k", "HKEYS", "steps:" .. id)
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
    -- One text instead of twenty: the number of words is most of the cost of a plain task.
    row[1] = table.concat(flat, "\0")
  end
  reply[#reply + 1] = row
end
return reply
