-- @include is_waiting
-- What becomes of the task that holds a new one's key: "keep", "replace" or "debounce". Debounced
-- is what differs in payload and priority only: the same lane and key, the same tags, deadline and
-- so on, and no parents. A task of another kind replaces it, since under its id it would be in the
-- wrong place.
local function holder_rule(root, holder, row, new, ask, parents)
  if not is_waiting(row.state) then
    return "keep"
  elseif ask.if_exists ~= "debounce" then
    return ask.if_exists or "keep"
  end
  local same = #parents == 0
    and redis.call("HGET", root .. "lanes", new.kind.signature) == row.lane
    and redis.call("HGET", root .. "task:" .. holder, "more") == new.more
    and (redis.call("HGET", root .. "task:" .. holder, "key") or nil) == new.key
  return same and "debounce" or "replace"
end
