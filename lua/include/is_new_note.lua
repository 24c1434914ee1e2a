-- Whether a note of a run is not one that was kept already: `seq` is its number in the attempt. One
-- by hand has none, and is told apart by the name of its call.
local function is_new_note(root, id, token, seq)
  if seq == "" then
    return true
  end
  local attempt, last = string.match(redis.call("HGET", root .. "notes:" .. id, "noted") or "",
    "^(%S+) (%d+)$")
  return attempt ~= token or tonumber(last) < tonumber(seq)
end
