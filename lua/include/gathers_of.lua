-- What a task that runs is about to wait for, as gather_tasks has noted it for the attempt of this
-- token: nothing where it was for another, though the note is still there.
local function gathers_of(root, id, token)
  local noted, parents, goes_on = redis.call("SMEMBERS", root .. "gather:" .. id), {}, false
  for _, one in ipairs(noted) do
    if string.sub(one, 1, 1) == "@" then
      goes_on = string.match(one, " (%S+)$") == token
    else
      parents[#parents + 1] = one
    end
  end
  return goes_on and parents or {}
end
