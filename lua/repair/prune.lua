-- prune: no move
--
-- Takes out of a page of a sorted set the tasks that are gone or are not what it lists. The other
-- half of the sweep: from the indexes to the tasks.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 index       its name after the root: lane:<n> delayed blocked dead deadlines handoffs
--                     tag:<t>, or of lanes of keys keyed:<n>:<key> heads:<n> turns:<n> shut:<n>
--                     hand:<key>
--       3 cursor      "0", or what the page before said
--       4 limit       about how many members are looked at
-- FLAGS allow-oom
-- REPLY OK <cursor, "0" at the end> <taken out>

local root, index, cursor, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local page, strays = redis.call("ZSCAN", root .. index, cursor, "COUNT", limit), {}
for at = 1, #page[2], 2 do
  if not mend.belongs(root, index, page[2][at]) then
    strays[#strays + 1] = page[2][at]
  end
end
for _, member in ipairs(strays) do
  redis.call("ZREM", root .. index, member)
end
return { "OK", page[1], mend.count_repaired(root, #strays) }
