-- spawn: - -> PENDING | READY
--
-- Adds tasks to the DAG of the one that runs, which may wait for them: it is suspended then, leaves
-- its worker without spending an attempt, and runs again when they have ended. What was spawned
-- under the same key before is not spawned again; sent again, the call says the same. All or
-- nothing is added.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 parent      the task that runs
--       3 token       the claim's token
--       4 wait        "": goes on; "success": until all are completed; "done": until all have
--                     ended
--       5 rule        who may spawn what where the DAG does not say: own_dag, same_agent, none
--       6 max_nodes   how many tasks a DAG may have
--       7 lanes       a line "<rate> <signature>" for each lane of this call
--       8 max_lanes   how many lanes the shard may have
--       9 steps       how many edges are followed to find a cycle
--      10 tries       how many parked claims may be looked at
--      11 gather      "", or the name of a wait of several calls that this one is a part of
--      12 part        of such a wait: first, next; last: it waits from now on for those of all
--      13 keep_ms     how long what the parts have noted is kept for the next
--      14 who         "" or, where a task names another creator, who asks, see role_refused
--      15 woken       how many gates and accounts are looked at that were freed
--      16 back        how many tasks return at most that their DAGs could not pay
-- EACH  key           under which the parent knows it
--       task          its id if it is new
--       place         "<number of its line> <base> <rank>", see lua/dag/submit.lua
--       def           the definition, opaque
--       special       two lines of JSON, each may be empty: what is kept with the task, and what is
--                     asked of this call {delay, at, outside}: the tasks that it waits for
-- REPLY OK <more> <GOING | SUSPENDED> [id state]... | LOST | RULE <rule> | FULL | CLOSED | LANES
--       | PARENT <key> <id> | CYCLE <key> | FAR <key> | EXISTS <key> <id> | FORBIDDEN <who>

local root, parent, token, wait = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local first, stride = 17, 5
local gather = ARGV[11] ~= "" and { "@" .. ARGV[11] .. " " .. token, ARGV[12], ARGV[13] } or nil

local now = values.now_ms()
local held, row = lease.held(root, parent, token)
local suspended = not held and calls.settled_by(root, parent, token, "suspend")
if not suspended and not (held and row[1] == "RUNNING") then
  return { "LOST" }
elseif not suspended and gather and gather[2] ~= "first"
  and redis.call("SISMEMBER", root .. "gather:" .. parent, gather[1]) == 0 then
  return { "LOST" }
end
local rows = {}
for at = first, #ARGV, stride do
  rows[#rows + 1] = { key = ARGV[at], id = ARGV[at + 1], place = ARGV[at + 2], def = ARGV[at + 3],
    special = ARGV[at + 4] }
end
return spawn.all(root, now, { id = parent, row = row, suspended = suspended, rows = rows,
  wait = wait, rule = ARGV[5], room = tonumber(ARGV[6]), lanes = ARGV[7], max_lanes = ARGV[8],
  names = {}, walk = { left = tonumber(ARGV[9]), seen = {} }, gather = gather, who = ARGV[14],
  most = { tries = tonumber(ARGV[10]), woken = ARGV[15], back = tonumber(ARGV[16]) } })
