-- watch: no move
--
-- Registers a mailbox that is notified when tasks or DAGs end. For those that have ended already,
-- the reply has their state.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 box         the mailbox
--       3 keep_ms     how long the registration is kept
-- EACH  task          its id, or "dag_" and the id of a DAG
-- FLAGS allow-oom
-- REPLY OK [<state> | GONE]...

local root, box, keep_ms = ARGV[1], ARGV[2], ARGV[3]
local first, stride = 4, 1

local reply = { "OK" }
for at = first, #ARGV, stride do
  local id = ARGV[at]
  local dag = string.match(id, "^dag_(.+)$")
  reply[#reply + 1] = (dag and mailbox.watch_dag(root, dag, box, keep_ms))
    or (not dag and mailbox.watch_task(root, id, box, keep_ms)) or "GONE"
end
return reply
