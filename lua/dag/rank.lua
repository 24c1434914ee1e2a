-- rank: no move
--
-- Sets the part of the priority of tasks of a DAG that comes from the critical path. The score of a
-- task moves by the difference, so a repeated call changes nothing.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 seen        value in `unfinished` when the graph was read; "" where more tasks follow
-- EACH  task          its id
--       rank          its boost, in millionths of a point
-- FLAGS allow-oom
-- REPLY OK

local root, dag, seen = ARGV[1], ARGV[2], ARGV[3]
local first, stride = 4, 2

for at = first, #ARGV, stride do
  local id, rank = ARGV[at], ARGV[at + 1]
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "state", "lane", "score", "rank")
  local state, had = row[1], row[4] or "0"
  if state and state ~= "COMPLETED" and state ~= "CANCELLED" and had ~= rank then
    local score = string.format("%.0f", row[3] - (rank - had))
    redis.call("HSET", key, "rank", rank, "score", score)
    if state == "READY" then
      lanes.rescore(root, row[2], score, id)
    end
  end
end
-- After a change since then the DAG stays in `unfinished`, and its ranks are computed again.
if seen ~= "" and redis.call("HGET", root .. "unfinished", "rank " .. dag) == seen then
  redis.call("HDEL", root .. "unfinished", "rank " .. dag)
end
return { "OK" }
