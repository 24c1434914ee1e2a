-- archived: no move
--
-- The rows of these outbox entries are committed: the entries go, and the keys of the tasks in
-- them begin to expire. Dead ones stay until they are resolved, those of a DAG until it ends.
--
-- KEYS  1 outbox      stream  what has ended
-- ARGV  1 root        prefix of every key of the shard
--       2 ttl         how long an ended task is kept, ms
-- EACH  entry         id of an outbox entry
-- TOUCHES task:<id> def:<id> result:<id> failures:<id> ext:<sha> tag:<t> stats dag:<dag>
-- FLAGS allow-oom
-- REPLY OK <tasks>

-- @include task_row
-- @include forget_later
-- @include dag_of

local outbox = KEYS[1]
local root, ttl = ARGV[1], ARGV[2]
local first, stride = 3, 1

local tasks = 0
for at = first, #ARGV, stride do
  local found = redis.call("XRANGE", outbox, ARGV[at], ARGV[at])
  local fields = found[1] and found[1][2] or {}
  for i = 1, #fields, 2 do
    local id = fields[i]
    local row = task_row(root, id)
    -- One that has lived again since has an entry of its own to wait for.
    local ended = row.state == "COMPLETED" or row.state == "CANCELLED"
    if ended and fields[i + 1] == (row.more.life or 1) .. " " .. row.state then
      local dag = redis.call("HMGET", root .. "dag:" .. (dag_of(row.flags) or ""),
        "status", "finished")
      if dag[1] and not dag[2] then
        redis.call("HSET", root .. "task:" .. id, "archived", 1)
      else
        forget_later(root, id, ttl, row.flags, row.more)
      end
    end
    tasks = tasks + 1
  end
  redis.pcall("XACK", outbox, "archive", ARGV[at])
  redis.call("XDEL", outbox, ARGV[at])
end
-- Less nothing would be sent as "-0", which Redis does not take for a number.
if tasks > 0 then
  redis.call("HINCRBY", root .. "stats", "outbox", -tasks)
end
return { "OK", tasks }
