-- @include note_types
-- How many tasks of a type are in hand, or of the whole queue for "*": its lanes count them.
local function in_hand_of(root, what)
  note_types(root)
  local all, names, sum = redis.call("HGETALL", root .. "types"), {}, 0
  for at = 1, #all, 2 do
    if what == "*" or all[at + 1] == what then
      for _, state in ipairs({ "CLAIMED", "RUNNING", "VALIDATING" }) do
        names[#names + 1] = all[at] .. ":" .. state
      end
    end
  end
  if #names == 0 then
    return 0
  end
  for _, number in ipairs(redis.call("HMGET", root .. "stats", unpack(names))) do
    sum = sum + tonumber(number or 0)
  end
  return sum
end
