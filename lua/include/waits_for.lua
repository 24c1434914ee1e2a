-- Whether a task waits for a parent, see waits_of.
local function waits_for(root, id, parent)
  local row = redis.call("HMGET", root .. "task:" .. id, "sole", "up0")
  if row[1] == "1" then
    return row[2] == parent
  end
  return redis.call("SISMEMBER", root .. "waits:" .. id, parent) == 1
end
