-- prune: no move
--
-- Removes from a page of a sorted set the tasks that do not exist or do not belong there. This is
-- the other half of the sweep: from the indexes to the tasks.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 index       its name after the root: lane:<n> delayed blocked dead deadlines handoffs
--                     tag:<t>, or of lanes of tenants keyed:<n>:<tenant> heads:<n> turns:<n>
--                     shut:<n> hand:<tenant>
--       3 cursor      "0", or the cursor that the page before returned
--       4 limit       about how many members to check
-- FLAGS allow-oom
-- REPLY OK <cursor, "0" at the end> <removed>

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
