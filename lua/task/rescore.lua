-- rescore: no move
--
-- Updates the urgency of live tasks to what their deadlines require now. Only the difference is
-- applied: a priority set meanwhile still counts, and a repetition changes nothing.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
-- EACH  task          its id
--       boost         its urgency now, in millionths of a point
--       was           its urgency when it was submitted, used where none was written since
-- FLAGS allow-oom
-- REPLY OK [OK | GONE | STATE:<found>]...

local root = ARGV[1]
local first, stride = 2, 3

local reply = { "OK" }
for at = first, #ARGV, stride do
  local id, boost = ARGV[at], ARGV[at + 1]
  local key, row = root .. "task:" .. id, tasks.read(root, id)
  local word = "OK"
  if not row.state then
    word = "GONE"
  elseif row.state == "COMPLETED" or row.state == "CANCELLED" then
    word = "STATE:" .. row.state
  else
    local had = redis.call("HGET", key, "boost") or ARGV[at + 2]
    local score = string.format("%.0f", row.score - (boost - had))
    redis.call("HSET", key, "boost", boost, "score", score)
    if row.state == "READY" then
      lanes.rescore(root, row.lane, score, id)
    end
  end
  reply[#reply + 1] = word
end
return reply
