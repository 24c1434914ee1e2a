-- edges: no move
--
-- Returns which tasks the unfinished tasks of a DAG wait for, page by page: what the calculation of
-- the critical path needs.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 from        position of the first task
--       4 limit       how many tasks and edges in this call; the last task is returned with all
--                     edges
-- FLAGS no-writes allow-oom
-- REPLY OK <position of the next, "" at the end>
--       [<task> <rank> <dependencies, separated by spaces>]... | GONE

local root, dag, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local status = redis.call("HGET", root .. "dag:" .. dag, "status")
if not status or status == "writing" then
  return { "GONE" }
end
local page = redis.call("LRANGE", root .. "members:" .. dag, from, from + limit - 1)
local reply, left, at = { "OK", "" }, limit, 0
while left > 0 and at < #page do
  at, left = at + 1, left - 1
  local id = page[at]
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "rank")
  local state = row[1]
  if state and state ~= "COMPLETED" and state ~= "CANCELLED" and state ~= "DEAD_LETTERED" then
    local waits = state == "PENDING" and edges.waits_of(root, id) or {}
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = id, row[2] or "0", table.concat(waits, " ")
    left = left - #waits
  end
end
if at < #page or #page == limit then
  reply[2] = from + at
end
return reply
