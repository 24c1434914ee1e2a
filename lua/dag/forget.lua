-- forget: no move
--
-- Lets the keys of a DAG that has ended expire: those of at most `limit` tasks in each call,
-- finally those of the DAG. Keys of tasks that are not archived yet are left to
-- archive/acknowledge, and so are those of the DAG, which is archived with its last task. Does
-- nothing while another DAG is still to be submitted after this one.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 limit       how many tasks at most in this call
--       4 archive     1: what has ended is kept until it is archived
--       5 ttl         how long the keys of an ended task are kept, ms
-- FLAGS allow-oom
-- REPLY OK <more>

local root, dag, limit, archive, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

if redis.call("HEXISTS", root .. "unfinished", "follow " .. dag) == 1 then
  return { "OK", 0 }
end
local page, more = status.next_page(root, dag, "forget", limit)
if not page then
  return { "OK", 0 }
end
archive = calls.has_archive(root, archive)
for _, id in ipairs(page) do
  local row = tasks.read(root, id)
  local ended = row.state == "COMPLETED" or row.state == "CANCELLED"
  local kept = archive and redis.call("HEXISTS", root .. "task:" .. id, "archived") == 0
  if ended and not kept then
    tasks.expire(root, id, ttl, row.flags, row.more)
  end
end
if more then
  return { "OK", 1 }
end
if not archive or redis.call("HEXISTS", root .. "dag:" .. dag, "archived") == 1 then
  status.expire(root, dag, ttl)
end
return { "OK", 0 }
