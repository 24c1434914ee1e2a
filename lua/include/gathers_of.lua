-- What a task that runs is about to wait for, as gather_tasks has noted it for this very attempt:
-- nothing where that attempt is over, though the note is still there.
local function gathers_of(root, id)
  local noted, parents, goes_on = redis.call("SMEMBERS", root .. "gather:" .. id), {}, false
  if #noted == 0 then
    return parents
  end
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "token")
  for _, one in ipairs(noted) do
    if string.sub(one, 1, 1) == "@" then
      goes_on = row[1] == "RUNNING" and string.match(one, " (%S+)$") == row[2]
    else
      parents[#parents + 1] = one
    end
  end
  return goes_on and parents or {}
end
