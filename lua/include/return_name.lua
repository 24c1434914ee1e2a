-- A task that is taken back leaves its producer's id to the one that bore it before, if that is
-- still there, and for as long as it is.
local function return_name(root, id, ext)
  local name = ext and root .. "ext:" .. ext
  if not name or redis.call("GET", name) ~= id then
    return
  end
  local before = redis.call("HGET", root .. "task:" .. id, "namesake")
  if not before or redis.call("EXISTS", root .. "task:" .. before) == 0 then
    redis.call("DEL", name)
    return
  end
  redis.call("SET", name, before)
  local left = redis.call("PTTL", root .. "task:" .. before)
  if left >= 0 then
    redis.call("PEXPIRE", name, left)
  end
end
