-- rank: no move
--
-- Gives tasks of a DAG the part of their priority that is for the critical path, anew: it is the
-- difference that moves them, and sent again it changes nothing.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 seen        what `unfinished` said when the graph was read; "" where more tasks follow
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
-- A change since then is for the next call.
if seen ~= "" and redis.call("HGET", root .. "unfinished", "rank " .. dag) == seen then
  redis.call("HDEL", root .. "unfinished", "rank " .. dag)
end
return { "OK" }
