-- expire: PENDING | READY | RETRYING -> DEAD_LETTERED | CANCELLED
--
-- Ends waiting tasks whose deadline has passed and who asked for that. One that is in hand runs
-- on; it is looked at again after `again_ms`, in case it comes back, and so is one that is not
-- committed yet.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many at most
--       3 how         JSON {archive, ttl, events}
--       4 again_ms    when to look again at one that is in hand
-- TOUCHES task:<id> def:<id> deadlines dead lane:<n> delayed blocked waits:<id> dependents:<id>
--       stats outbox events noticed notices idem:<sha> ext:<sha> tag:<t> watchers:<id> mail:<box>
--       cancelling
--       telling heirs:<id> held:<dag> dag:<dag> unfinished
--       budget:<account> short unpaid:<dag>
--       archiving + what line_up touches
-- FLAGS allow-oom
-- REPLY OK <more> <expired>

-- @include now_ms
-- @include ways_of
-- @include is_waiting
-- @include is_visible
-- @include task_row
-- @include cancel_awaited
-- @include cancel_task
-- @include cancel_dependents
-- @include tally_dags
-- @include bury_task
-- @include keep_parents
-- @include send_to_outbox

local root, limit, how, again_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local now, ended = now_ms(), {}
local options = ways_of(root, how)
local due = redis.call("ZRANGEBYSCORE", root .. "deadlines", "-inf", now, "LIMIT", 0, limit)
for _, id in ipairs(due) do
  local row = task_row(root, id)
  redis.call("ZREM", root .. "deadlines", id)
  local waiting = is_waiting(row.state) and is_visible(root, row)
  if waiting and row.more.on_deadline == "cancel" then
    cancel_awaited(root, id, row)
    ended[#ended + 1] = id
    ended[#ended + 1] = cancel_task(root, now, id, row, "deadline passed", options)
    cancel_dependents(root, id, row.flags, "cascade", "cancelled")
  elseif waiting and row.more.on_deadline == "fail" then
    options.reason = "timeout"
    keep_parents(root, id)
    leave_indexes(root, id, row.state, row.lane, row.entry, row.token)
    ended[#ended + 1] = id
    ended[#ended + 1] = bury_task(root, now, id, row,
      { "reason", "timeout", "why", "deadline passed", "settled", "expire" }, options)
  elseif row.state == "CLAIMED" or row.state == "RUNNING" or row.state == "VALIDATING"
    or row.state == "CREATED" or (row.state == "PENDING" and not waiting) then
    redis.call("ZADD", root .. "deadlines", now + again_ms, id)
  end
end
tally_dags(root, now, options)
send_to_outbox(root, options.archive, ended)
return { "OK", #due == limit and 1 or 0, #ended / 2 }
