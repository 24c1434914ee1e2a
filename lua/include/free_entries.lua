-- Takes many entries out of the stream and out of the pending list. XDEL looks each one up by
-- walking its node; those at the head of the stream, as most are, go by one XTRIM instead.
local function free_entries(root, entries)
  local ready, freed = root .. "ready", {}
  redis.call("XACK", ready, "workers", unpack(entries))
  for _, entry in ipairs(entries) do
    freed[entry] = true
  end
  local first = redis.call("XRANGE", ready, "-", "+", "COUNT", 1)[1]
  if first and freed[first[1]] then
    local past
    for _, found in ipairs(redis.call("XRANGE", ready, "-", "+", "COUNT", #entries + 1)) do
      if not freed[found[1]] then
        past = found[1]
        break
      end
      freed[found[1]] = nil
    end
    redis.call("XTRIM", ready, past and "MINID" or "MAXLEN", "=", past or 0)
  end
  local left = {}
  for entry in pairs(freed) do
    left[#left + 1] = entry
  end
  if #left > 0 then
    redis.call("XDEL", ready, unpack(left))
  end
end
