-- @include gathers_of
-- What a task waits for, or is about to: by its state one look is enough for most. Of one that was
-- revived and has many parents not all may stand in its set yet, see note_parents.
local function edges_of(root, id)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "sole", "up0", "token", "parents")
  local state = row[1]
  if state == "RUNNING" then
    return gathers_of(root, id, row[4])
  elseif row[2] == "1" then
    return { row[3] }
  elseif state ~= "PENDING" and state ~= "CREATED" then
    return {}
  end
  local parents = redis.call("SMEMBERS", root .. "waits:" .. id)
  for parent in string.gmatch(row[5] or "", "%S+") do
    parents[#parents + 1] = parent
  end
  return parents
end
