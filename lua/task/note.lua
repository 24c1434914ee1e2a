-- note: no move
--
-- Stores what a running task reports: its progress, its checkpoint, log lines, its cost. Only the
-- holder of the lease may; a run whose lease has ended may still report its cost once. The reply
-- to a run that exceeds its cost limit is budget_exceeded: it must end.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 keep        how many log lines are kept
--       3 archive     1: the cost of a run whose lease has ended goes to the archive
--       4 request     "", or the name of a manual call: a repetition gets the same reply
--       5 memo_ms     how long the reply to such a call is kept
-- EACH  task          its id
--       token         the claim's token
--       seq           number of this note in its attempt, rising: a repetition is not stored twice;
--                     "" for a manual one
--       progress      JSON, "" for nothing new
--       checkpoint    JSON, "" for nothing new
--       line          a log line, "" for none
--       micro_usd     added to its cost
--       tokens_in     added to its tokens
--       tokens_out    the same
--       more_ms       added to its timeout
--       timeout_ms    the timeout of a task without one of its own
--       model         the model that the cost is for, "" if unknown
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | LATE | budget_exceeded]...: LATE is LOST where the cost is counted

local root, keep, archive = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local request, memo_ms = ARGV[4], ARGV[5]
local first, stride = 6, 12

local known = request ~= "" and calls.remembered(root, request)
if known then
  return known
end

local now = values.now_ms()
archive = calls.has_archive(root, archive)

local function add(id, at)
  local notes = root .. "notes:" .. id
  for name, value in pairs({ progress = ARGV[at + 3], checkpoint = ARGV[at + 4],
    model = ARGV[at + 11] }) do
    if value ~= "" then
      redis.call("HSET", notes, name, value)
    end
  end
  if ARGV[at + 5] ~= "" then
    redis.call("RPUSH", root .. "logs:" .. id, ARGV[at + 5])
    redis.call("LTRIM", root .. "logs:" .. id, -keep, -1)
  end
end

local function word_for(id, at, token, seq)
  local cost = { ARGV[at + 6], ARGV[at + 7], ARGV[at + 8] }
  local held, row = lease.held(root, id, token)
  if not held then
    local counted = late.record(root, now, { id = id, token = token, flags = row[5], seq = seq,
      model = ARGV[at + 11] }, cost, archive)
    return counted and "LATE" or "LOST"
  end
  local holder = redis.call("HGET", root .. "task:" .. id, "holder")
  local owner = select(3, tasks.split_holder(holder or ""))
    or "nobody"
  if late.is_new_note(root, id, token, seq) then
    add(id, at)
    accounts.note_cost(root, now, id, row[5], owner, cost)
    if ARGV[at + 9] ~= "0" then
      lease.extend(root, id, row, ARGV[at + 9], ARGV[at + 10])
    end
    if seq ~= "" then
      redis.call("HSET", root .. "notes:" .. id, "noted", token .. " " .. seq)
    end
    tasks.add_flag(root, id, "n")
  end
  local over = cost[1] ~= "0" and late.is_overrun(root, now, id, row[5], owner)
  return over and "budget_exceeded" or "OK"
end

local reply = { "OK" }
for at = first, #ARGV, stride do
  reply[#reply + 1] = word_for(ARGV[at], at, ARGV[at + 1], ARGV[at + 2])
end
return request ~= "" and calls.remember(root, request, memo_ms, reply) or reply
