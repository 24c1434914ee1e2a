-- @include precedes
-- Drops the notices that every sink has had: what stands before the first that one has still to be
-- told, or has not come to. Without any sink, all of them.
local function trim_notices(root)
  local first
  for _, sink in ipairs(redis.call("ZRANGE", root .. "sinks", 0, -1)) do
    local last = redis.call("HGET", root .. "sink:" .. sink, "last") or "0-0"
    local ms, at = string.match(last, "^(%d+)-(%d+)$")
    local needed = string.format("%s-%.0f", ms, at + 1)
    for _, notice in ipairs(redis.call("ZRANGE", root .. "undelivered:" .. sink, 0, -1)) do
      needed = precedes(notice, needed) and notice or needed
    end
    first = (not first or precedes(needed, first)) and needed or first
  end
  if first then
    redis.call("XTRIM", root .. "notices", "MINID", "=", first)
  else
    redis.call("DEL", root .. "notices")
  end
end
