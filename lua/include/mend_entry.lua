-- The stream entry of a task, made anew where there is none that is its own.
local function mend_entry(root, now, id, entry)
  local ready, key = root .. "ready", root .. "task:" .. id
  local found = entry and redis.pcall("XRANGE", ready, entry, entry)[1]
  if found and found[2][2] == id then
    return entry
  end
  -- The entry says when the task was created until there is another entry.
  redis.call("HSETNX", key, "created", string.match(entry or "", "^(%d+)%-%d+$") or now)
  local fresh = redis.call("XADD", ready, "*", "task", id)
  redis.call("HSET", key, "entry", fresh)
  return fresh
end
