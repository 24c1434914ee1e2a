-- tidy: no move
--
-- Deletes what ended claiming sessions have left: the record of a waiting claim whose worker does
-- not exist, waiting claims under a profile that does not exist, and such profiles in the lists of
-- the lanes. Also deletes the virtual times of tenants when no lane of tenants has a READY task.
--
-- KEYS  1 workers     zset    workers by their last heartbeat
-- ARGV  1 root        prefix of every key of the shard
--       2 silent_ms   how long a worker is silent before its waiting claims are deleted
-- EACH  name          of a key after the root: waiter:<w> waiting:<p> profiles:<n> turned, or
--                     turned:<n>, which earlier releases wrote for each lane
-- FLAGS allow-oom
-- REPLY OK <deleted>

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

local function no_tenant_is_ready()
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
    -- A profile is stored for longer than any claim waits under it.
    dropped = dropped + redis.call("DEL", root .. "waiting:" .. name)
  elseif kind == "profiles" then
    dropped = dropped + drop_profiles(root .. "profiles:" .. name)
  elseif kind == "turned" and (name ~= "" or no_tenant_is_ready()) then
    dropped = dropped + redis.call("DEL", root .. ARGV[at])
  end
end
return { "OK", dropped }
