-- spawn: - -> PENDING | READY
--
-- Adds tasks to the DAG of a running task. The running task may wait for them: it is suspended
-- then, leaves its worker without spending an attempt, and runs again when they have ended. A task
-- that was spawned under the same key before is not spawned again; a repeated call returns the same
-- reply. Either all tasks are added or none.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 parent      the running task
--       3 token       the claim's token
--       4 wait        "": it continues; "success": it waits until all are completed; "done": until
--                     all have ended
--       5 rule        what may be spawned by whom where the DAG does not say: own_dag, same_agent,
--                     none
--       6 max_nodes   how many tasks a DAG may have
--       7 lanes       a line "<rate> <signature>" for each lane of this call
--       8 max_lanes   how many lanes the shard may have
--       9 steps       how many edges are followed in search of a cycle
--      10 tries       how many waiting claims to check at most
--      11 gather      "", or the name of a wait that takes several calls, of which this is one
--      12 part        which part of such a wait: first, next; last: it waits from now on for the
--                     tasks of all
--      13 keep_ms     how long what the parts have noted is kept for the next
--      14 who         "" or the principals, where a task names another creator; see
--                     calls.role_refused
--      15 woken       how many gates and accounts to check that were freed
--      16 back        how many tasks that exceeded the budget of their DAG return at most
-- EACH  key           name under which the parent finds the task again
--       task          its id if it is new
--       place         "<number of its line> <base> <rank>", see lua/dag/submit.lua
--       def           the definition, opaque
--       special       two lines of JSON, each may be empty: what is stored with the task, and what
--                     this call needs {delay, at, outside}: outside are the tasks that it waits for
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
