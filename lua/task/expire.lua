-- expire: PENDING | READY | RETRYING -> DEAD_LETTERED | CANCELLED
--
-- Ends waiting tasks whose deadline has passed and whose options say so. A leased task continues
-- and is checked again after `again_ms`, since it may wait again by then; so is a task that is not
-- committed yet.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 limit       how many at most
--       3 how         JSON {archive, ttl, events}
--       4 again_ms    when to check a leased task again
-- FLAGS allow-oom
-- REPLY OK <more> <expired>

local root, limit, how, again_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local now, ended = values.now_ms(), {}
local options = calls.read_options(root, how)
local due = redis.call("ZRANGEBYSCORE", root .. "deadlines", "-inf", now, "LIMIT", 0, limit)
for _, id in ipairs(due) do
  local row = tasks.read(root, id)
  redis.call("ZREM", root .. "deadlines", id)
  local waiting = tasks.is_waiting(row.state) and tasks.is_visible(root, row)
  if waiting and row.more.on_deadline == "cancel" then
    cancel.awaited(root, id, row)
    ended[#ended + 1] = id
    ended[#ended + 1] = cancel.task(root, now, id, row, "deadline passed", options)
    cancel.dependents(root, id, row.flags, "cascade", "cancelled")
  elseif waiting and row.more.on_deadline == "fail" then
    options.reason = "timeout"
    edges.save(root, id)
    indexes.leave(root, id, row.state, row.lane, row.entry, row.token)
    ended[#ended + 1] = id
    ended[#ended + 1] = fail.bury(root, now, id, row,
      { "reason", "timeout", "why", "deadline passed", "settled", "expire" }, options)
  elseif row.state == "CLAIMED" or row.state == "RUNNING" or row.state == "VALIDATING"
    or row.state == "CREATED" or (row.state == "PENDING" and not waiting) then
    redis.call("ZADD", root .. "deadlines", now + again_ms, id)
  end
end
status.write_tallies(root, now, options)
event.send_to_outbox(root, options.archive, ended)
return { "OK", #due == limit and 1 or 0, #ended / 2 }
