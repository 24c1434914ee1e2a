-- Leaves a `list` of { id, reason, rule } to the next call of `cancel`: each with the rule of its
-- own cascade, since whoever calls next may have another.
local function cancel_later(root, list)
  for _, one in ipairs(list) do
    redis.call("HSET", root .. "cancelling", one[1], one[3] .. " " .. one[2])
  end
end
