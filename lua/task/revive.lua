-- revive: DEAD_LETTERED -> READY | PENDING
--
-- Begins a new life of a dead task: attempts start again, its failures stay. With `def` its
-- definition is replaced; with `delay` it waits first. A DAG that is being cancelled must end that
-- first. More dependencies than a page are registered in steps: `unfinished` names the task until
-- then, and it cannot run.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 life        the life that the reviewer saw; "" to continue a registration
--       4 def         "" or the changed definition
--       5 delay       ms to wait first; 0: none
--       6 tries       how many waiting claims are tried at most
--       7 terms       JSON {archive, events, reviews}
--       8 steps       how many edges are followed to find a cycle
--       9 page        how many dependencies are checked in this call
--      10 review      JSON of the decision, see revive.add_review; its not_before takes precedence
--                     over `delay`
--      11 request     names this decision: a repetition gets the same reply and changes nothing
--      12 memo_ms     how long that reply is kept
-- REPLY OK <0; 1: claims remain to be answered; 2: dependencies remain to be registered> <state>
--       | GONE | STATE <found> | DECIDED <found> | EXISTS <holder> | PARENT <id> | CLOSING <dag>
--       | CYCLE <id> | FAR <id>

local root, task, life, def = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local delay, tries, terms = tonumber(ARGV[5]), tonumber(ARGV[6]), calls.read_options(root, ARGV[7])
local steps, page, review = tonumber(ARGV[8]), tonumber(ARGV[9]), values.decoded(ARGV[10])
local request, memo_ms = ARGV[11], ARGV[12]

local now, key, row = values.now_ms(), root .. "task:" .. task, tasks.read(root, task)
local how, kept = indexes.collector(1), life and calls.remembered(root, request)
if kept then
  return kept
elseif not row.state or not tasks.is_visible(root, row) then
  return { "GONE" }
elseif not life then
  local left = revive.register_dependencies(root, task, row, page, how)
  indexes.enter(root, how)
  event.emit_ready(root, terms.events, how.readied)
  local more = answer.touched(root, now, how.touched, tries)
  return { "OK", left and 2 or more and 1 or 0, redis.call("HGET", key, "state") }
end
local late = revive.already_decided(root, task, row, life)
if late then
  return { late, row.state }
end
local refused, open, many = revive.refused(root, task, row, steps, page)
if refused then
  return refused
end

local due = tonumber(review.not_before) or delay > 0 and now + delay or nil
status.revive(root, now, task, row.flags, terms.events)
revive.begin_life(root, now, task, row, def, terms.events)
review.not_before = due
revive.add_review(root, now, task, life, review, "retry", terms.reviews)
if not many then
  redis.call("HDEL", key, "parents")
end
if due or #open > 0 or many then
  if many then
    redis.call("SADD", root .. "waits:" .. task, "@parents")
    redis.call("HSET", root .. "unfinished", "revive " .. task, 0)
  end
  indexes.block(root, task, open, due, row.more.trigger)
  indexes.add_pending(root, now, task, due)
  redis.call("HSET", key, "state", "PENDING", unpack(due and { "due", due } or {}))
  lanes.count(root, row.lane, "PENDING", 1)
  return calls.remember(root, request, memo_ms, { "OK", many and 2 or 0, "PENDING" })
end
indexes.make_ready(root, task, row.lane, row.score, how, row.flags)
indexes.enter(root, how)
local unanswered = answer.touched(root, now, how.touched, tries)
return calls.remember(root, request, memo_ms, { "OK", unanswered and 1 or 0, "READY" })
