-- Counts what was found wrong and put right. Nothing is written where nothing was.
local function repaired(root, number)
  if number > 0 then
    redis.call("HINCRBY", root .. "stats", "repaired", number)
  end
  return number
end
