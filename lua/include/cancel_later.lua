-- Leaves a `list` of { id, reason, rule } to the next call of `cancel`: each with the rule of its
-- own cascade, since whoever calls next may have another.
local function cancel_later(root, list)
  local flat = {}
  for at, one in ipairs(list) do
    flat[#flat + 1], flat[#flat + 2] = one[1], one[3] .. " " .. one[2]
    if #flat == 1000 or at == #list then
      redis.call("HSET", root .. "cancelling", unpack(flat))
      flat = {}
    end
  end
end
