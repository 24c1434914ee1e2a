-- Submits plain tasks: no idempotency key, no delay, no dependencies.

-- The reply to a call for one new, plain task of an existing lane; nil for any other call. Most
-- calls are of this kind, and the checks for the others would cost a fifth of their time.
function plain.one(root, lanes, tries, id, place, def)
  local rate, signature = string.match(lanes, "^([^%s$]+) ([^\n]+)$")
  local lane = signature and redis.call("HGET", root .. "lanes", signature)
  local key = root .. "task:" .. id
  if not lane or tasks.has_tenant(lane) or redis.call("EXISTS", key) == 1 then
    return nil
  end
  local entry = redis.call("XADD", root .. "ready", "*", "task", id)
  local now = values.entry_ms(entry)
  local score = string.format("%.0f", string.sub(place, 3) + rate * now / 60000)
  plain.write(root, id, key, entry, lane, score, def)
  redis.call("HINCRBY", root .. "stats", "submitted", "1")
  local profiles = redis.call("SMEMBERS", root .. "profiles:" .. lane)
  local waiter = #profiles == 1
    and redis.call("ZRANGE", root .. "waiting:" .. profiles[1], 0, 0)[1]
  if waiter or #profiles > 1 then
    local task = { id, entry, lane, def }
    return { "OK",
      answer.deliver_first(root, now, task, score, waiter, profiles[1], tonumber(tries)) }
  end
  redis.call("ZADD", root .. "lane:" .. lane, score, id)
  return { "OK", 0 }
end

-- Writes a READY task that has a stream entry. The caller adds it to its lane, many at once.
-- `tenant` is its tenant, if it has one.
function plain.write(root, id, key, entry, lane, score, def, tenant)
  if #def <= 64 and not tenant then
    redis.call("HSET", key, "state", "READY", "lane", lane, "entry", entry, "score", score,
      "def0", def)
  elseif #def <= 128 and not tenant then
    -- Written out: most tasks are of this size, and a list built for each would cost more.
    redis.call("HSET", key, "state", "READY", "lane", lane, "entry", entry, "score", score,
      "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65))
  else
    local fields = { "state", "READY", "lane", lane, "entry", entry, "score", score }
    if tenant then
      fields[9], fields[10] = "key", tenant
    end
    if definition.add_fields(fields, def) then
      redis.call("SET", root .. "def:" .. id, def)
    end
    redis.call("HSET", key, unpack(fields))
  end
end
