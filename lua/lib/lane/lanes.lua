-- Lanes: the sorted sets of READY tasks, their numbers, types and counters.

-- Notifies all waiting claims that a lane was created: their workers check again which lanes they
-- serve. Removes expired profiles.
local function announce_lane(root, version)
  for _, profile in ipairs(redis.call("SMEMBERS", root .. "profiles:new")) do
    local waiting = redis.call("ZRANGE", root .. "waiting:" .. profile, 0, -1)
    for _, waiter in ipairs(waiting) do
      local box = redis.call("HGET", root .. "waiter:" .. waiter, "box")
      if box then
        mailbox.put(root, box, "lanes " .. version)
      end
    end
    if #waiting == 0 and redis.call("EXISTS", root .. "profile:" .. profile) == 0 then
      redis.call("SREM", root .. "profiles:new", profile)
    end
  end
end

-- Creates a lane and notifies waiting claims. Returns its number, or nil when the shard has
-- `max_lanes` already. Versions start at the current time, so that a server that has lost its data
-- does not repeat earlier ones.
local function create_lane(root, signature, max_lanes, now)
  local lanes = root .. "lanes"
  -- `next` and `version` are fields of the same hash.
  if redis.call("HLEN", lanes) - 2 >= tonumber(max_lanes) then
    return nil
  end
  local number = tostring(redis.call("HINCRBY", lanes, "next", 1))
  if string.find(signature, '"keyed":true', 1, true) then
    -- The sign marks a lane of tenants, see tasks.has_tenant.
    number = "-" .. number
  end
  redis.call("HSET", lanes, signature, number)
  redis.call("HSETNX", lanes, "version", string.format("%.0f", now))
  announce_lane(root, string.format("%.0f", redis.call("HINCRBY", lanes, "version", 1)))
  return number
end

-- The number of the lane of a kind { signature }, which is created if it is new; nil when there are
-- too many lanes. The kind keeps the number.
function lanes.number_of(root, kind, max_lanes, now)
  if not kind.number then
    kind.number = redis.call("HGET", root .. "lanes", kind.signature)
      or create_lane(root, kind.signature, max_lanes, now)
  end
  return kind.number
end

-- The kinds of tasks of a call, from one line "<rate>[$<estimate>:<most>] <signature>" for each:
-- how far they have aged, their signature, and their price or "".
function lanes.parse_kinds(text, now)
  local kinds = {}
  for rate, price, signature in string.gmatch(text, "([^%s$]+)%$?(%S*) ([^\n]+)") do
    kinds[#kinds + 1] = { age = rate * now / 60000, signature = signature, price = price,
      scores = {} }
  end
  return kinds
end

-- The place of a submitted task: the kind of its line, its tenant if it has one, and its score as
-- text; for a task of a DAG also `rank`, the part of its base that comes from the critical path.
-- Formatting a number is slow; tasks of one call with the same lane, tenant and priority share the
-- result.
function lanes.parse_place(kinds, word)
  local line, tenant, base, rank = string.match(word, "^(%d+)(%S*) (%S+) ?(.*)$")
  local kind = kinds[tonumber(line)]
  return { kind = kind, score = string.format("%.0f", base + kind.age), rank = rank,
    tenant = tenant ~= "" and string.sub(tenant, 2) or nil }
end

-- Adds READY tasks to their lane, from a list of score, id, score, id, ... `known` has the tenants
-- of some tasks by id.
function lanes.enter(root, lane, scores, known)
  redis.call("ZADD", root .. "lane:" .. lane, unpack(scores))
  if tasks.has_tenant(lane) then
    tenants.enter(root, lane, scores, known or {})
  end
end

-- Removes a task from its lane; returns 1 when it was there, else 0.
function lanes.leave(root, lane, id)
  local found = redis.call("ZREM", root .. "lane:" .. lane, id)
  if found == 1 and tasks.has_tenant(lane) then
    tenants.leave(root, lane, id)
  end
  return found
end

-- Gives a task another score in its lane, if it is in it; a held task is not.
function lanes.rescore(root, lane, score, id)
  redis.call("ZADD", root .. "lane:" .. lane, "XX", score, id)
  if tasks.has_tenant(lane) then
    tenants.rescore(root, lane, score, id)
  end
end

-- Adds `by` to the number of a lane's tasks in a state. READY is not counted: it is the length of
-- the lane.
function lanes.count(root, lane, state, by)
  if state ~= "READY" then
    -- Mostly it is one task: as text it costs Redis half as much.
    by = by == 1 and "1" or by == -1 and "-1" or by
    redis.call("HINCRBY", root .. "stats", lane .. ":" .. state, by)
  end
end

-- Collects in `how` a change of the number of a lane's tasks in a state.
function lanes.tally(how, lane, state, by)
  local states = how.counts[lane] or {}
  how.counts[lane] = states
  states[state] = (states[state] or 0) + by
end

-- The types of these lanes, each once.
function lanes.types_of(root, numbers)
  lanes.index_types(root)
  local found, seen = {}, {}
  for _, type in ipairs(redis.call("HMGET", root .. "types", unpack(numbers))) do
    if type and not seen[type] then
      found[#found + 1], seen[type] = type, true
    end
  end
  return found
end

-- Writes the type of each lane to `types`, if a lane was created since the last time.
function lanes.index_types(root)
  -- `next` and `version` are fields beside the lanes.
  if redis.call("HLEN", root .. "types") >= redis.call("HLEN", root .. "lanes") - 2 then
    return
  end
  local all = redis.call("HGETALL", root .. "lanes")
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 1) == "{" then
      redis.call("HSET", root .. "types", all[at + 1], cjson.decode(all[at]).type)
    end
  end
end

-- Adds to `touched` all lanes of a type, of the queue for "*", or of tenants for "@<tenant>", whose
-- tasks may pass now.
function lanes.touch_type(root, type, touched)
  lanes.index_types(root)
  local all = redis.call("HGETALL", root .. "types")
  for at = 1, #all, 2 do
    local by_tenant = string.byte(type) == 64 and tasks.has_tenant(all[at])
    if type == "*" or all[at + 1] == type or by_tenant then
      touched[all[at]] = true
    end
  end
end

-- The lanes of tenants, of a type or of the queue for "*".
function lanes.with_tenants(root, type)
  lanes.index_types(root)
  local all, found = redis.call("HGETALL", root .. "types"), {}
  for at = 1, #all, 2 do
    if tasks.has_tenant(all[at]) and (type == "*" or all[at + 1] == type) then
      found[#found + 1] = all[at]
    end
  end
  return found
end
