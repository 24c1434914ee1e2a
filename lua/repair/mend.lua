-- mend: no move
--
-- Looks whether tasks are in every index that their state names, and puts them back where they
-- are not. One half of the sweep: from the tasks to the indexes.
--
-- KEYS  1 ready       stream  one entry per task that may run or runs
-- ARGV  1 root        prefix of every key of the shard
--       2 parents     how many parents of a PENDING task are looked at
-- EACH  task          its id
-- FLAGS allow-oom
-- REPLY OK <repaired>

local root, parents = ARGV[1], ARGV[2]
local first, stride = 3, 1

local now, mended = string.format("%.0f", values.now_ms()), 0
local orphans = redis.call("EXISTS", root .. "orphans") == 1
for at = first, #ARGV, stride do
  local id = ARGV[at]
  if orphans then
    redis.call("SREM", root .. "orphans", id)
  end
  local missing = mend.task(root, now, id, parents)
  if missing or (missing == nil and mend.drop_torn(root, id)) then
    mended = mended + 1
  end
end
return { "OK", mend.count_repaired(root, mended) }
