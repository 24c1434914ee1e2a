-- note: no move
--
-- Keeps what a running task says of itself: how far it is, from where the next attempt goes on,
-- log lines, what it has cost. Only the holder of the lease may; but a run that lost its lease may
-- say once what it has cost. One that costs more than it may is told to end.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 keep        how many log lines are kept
-- EACH  task          its id
--       token         the claim's token
--       seq           number of this note in its attempt, rising: sent again, it is not kept twice
--       progress      JSON, "" for nothing new
--       checkpoint    JSON, "" for nothing new
--       line          a log line, "" for none
--       micro_usd     to be added to its cost
--       tokens_in     to be added to its tokens
--       tokens_out    the same
--       more_ms       to be added to its timeout
--       timeout_ms    the timeout of a task that has none of its own
-- TOUCHES task:<id> notes:<id> logs:<id> dag:<dag> budget:<account>
-- FLAGS allow-oom
-- REPLY OK [OK | LOST | budget_exceeded]...

-- @include now_ms
-- @include lease_held
-- @include holder_of
-- @include note_cost
-- @include is_overrun rarely
-- @include note_late rarely
-- @include more_of
-- @include flag

local root, keep = ARGV[1], tonumber(ARGV[2])
local first, stride = 3, 11

local now = now_ms()

local function add(id, at)
  local notes = root .. "notes:" .. id
  for i, name in ipairs({ "progress", "checkpoint" }) do
    if ARGV[at + 2 + i] ~= "" then
      redis.call("HSET", notes, name, ARGV[at + 2 + i])
    end
  end
  if ARGV[at + 5] ~= "" then
    redis.call("RPUSH", root .. "logs:" .. id, ARGV[at + 5])
    redis.call("LTRIM", root .. "logs:" .. id, -keep, -1)
  end
end

local function extend(id, row, more_ms, timeout_ms)
  local more = more_of(root, id, row[5])
  more.timeout = (more.timeout or tonumber(timeout_ms)) + tonumber(more_ms)
  redis.call("HSET", root .. "task:" .. id, "more", cjson.encode(more))
  flag(root, id, "m")
end

local function is_new(id, token, seq)
  local attempt, last = string.match(redis.call("HGET", root .. "notes:" .. id, "noted") or "",
    "^(%S+) (%d+)$")
  return attempt ~= token or tonumber(last) < tonumber(seq)
end

local function word_for(id, at, token, seq)
  local cost = { ARGV[at + 6], ARGV[at + 7], ARGV[at + 8] }
  local held, row = lease_held(root, id, token)
  if not held then
    note_late(root, now, id, token, seq, row[5], cost)
    return "LOST"
  end
  local owner = select(3, holder_of(redis.call("HGET", root .. "task:" .. id, "holder") or ""))
    or "nobody"
  if is_new(id, token, seq) then
    add(id, at)
    note_cost(root, now, id, row[5], owner, cost)
    if ARGV[at + 9] ~= "0" then
      extend(id, row, ARGV[at + 9], ARGV[at + 10])
    end
    redis.call("HSET", root .. "notes:" .. id, "noted", token .. " " .. seq)
    flag(root, id, "n")
  end
  local over = cost[1] ~= "0" and is_overrun(root, now, id, row[5], owner)
  return over and "budget_exceeded" or "OK"
end

local reply = { "OK" }
for at = first, #ARGV, stride do
  reply[#reply + 1] = word_for(ARGV[at], at, ARGV[at + 1], ARGV[at + 2])
end
return reply
