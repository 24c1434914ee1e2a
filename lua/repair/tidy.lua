-- tidy: no move
--
-- Drops what conversations that are over left behind: the memo of a waiter whose worker is gone,
-- who waits under a profile that is gone, and such profiles from the lanes' lists; and how far the
-- turns of keys have come where no lane of keys has anything to give.
--
-- KEYS  1 workers     zset    workers by their last sign of life
-- ARGV  1 root        prefix of every key of the shard
--       2 silent_ms   how long a worker gives no sign of life before its waiters are dropped
-- EACH  name          of a key after the root: waiter:<w> waiting:<p> profiles:<n> turned, or
--                     turned:<n> of before the turns were those of all lanes
-- FLAGS allow-oom
-- REPLY OK <dropped>

local workers = KEYS[1]
local root, silent_ms = ARGV[1], tonumber(ARGV[2])
local first, stride = 3, 1

local now, dropped = values.now_ms(), 0

local function drop_waiter(name)
  local key = root .. "waiter:" .. name
  local row = redis.call("HMGET", key, "consumer", "until", "profile")
  local seen = row[1] and redis.call("ZSCORE", workers, row[1])
  local alive = seen and tonumber(seen) > now - silent_ms or tonumber(row[2] or "0") > now
  if alive then
    return 0
  end
  redis.call("ZREM", root .. "waiting:" .. (row[3] or ""), name)
  return redis.call("DEL", key)
end

local function is_gone(profile)
  return redis.call("EXISTS", root .. "profile:" .. profile) == 0
end

local function drop_profiles(key)
  local gone = 0
  for _, profile in ipairs(redis.call("SMEMBERS", key)) do
    if is_gone(profile) then
      gone = gone + redis.call("SREM", key, profile)
    end
  end
  return gone
end

local function is_over()
  local keys = {}
  for i, lane in ipairs(lanes.with_tenants(root, "*")) do
    keys[i] = root .. "lane:" .. lane
  end
  return not keys[1] or redis.call("EXISTS", unpack(keys)) == 0
end

for at = first, #ARGV, stride do
  local kind, name = string.match(ARGV[at], "^(%a+):?(.*)$")
  if kind == "waiter" then
    dropped = dropped + drop_waiter(name)
  elseif kind == "waiting" and is_gone(name) then
    -- A profile outlives every wait under it.
    dropped = dropped + redis.call("DEL", root .. "waiting:" .. name)
  elseif kind == "profiles" then
    dropped = dropped + drop_profiles(root .. "profiles:" .. name)
  elseif kind == "turned" and (name ~= "" or is_over()) then
    dropped = dropped + redis.call("DEL", root .. ARGV[at])
  end
end
return { "OK", dropped }
