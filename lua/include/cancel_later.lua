-- Leaves tasks of a `list` of { id, reason, rule }, from one on, to the next call of `cancel`: each
-- with the rule of its own cascade, since whoever calls next may have another.
local function cancel_later(root, list, from)
  for i = from, #list do
    redis.call("HSET", root .. "cancelling", list[i][1], list[i][3] .. " " .. list[i][2])
  end
end
