-- @include key_of
-- @include open_key
-- Tasks with a key leave the hand. Where a key was found to have as many in hand as may be, it has
-- its turns again: its lanes are noted in `touched`, or the promoter answers who waits.
local function leave_hands(root, ids, touched)
  local hands = {}
  for _, id in ipairs(ids) do
    local key = key_of(root, id)
    hands[key] = hands[key] or {}
    hands[key][#hands[key] + 1] = id
  end
  local full = redis.call("EXISTS", root .. "full") == 1
  for key, own in pairs(hands) do
    redis.call("ZREM", root .. "hand:" .. key, unpack(own))
    if full and redis.call("SREM", root .. "full", key) == 1 then
      open_key(root, key, touched)
    end
  end
end
