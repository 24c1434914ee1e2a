-- @include key_of
-- @include line_up
-- Puts tasks of a lane of keys, a list of score, id, ..., among those of their keys.
local function enter_keys(root, lane, scores, known)
  local keys, order = {}, {}
  for at = 1, #scores, 2 do
    local key = known[scores[at + 1]] or key_of(root, scores[at + 1])
    local own = keys[key]
    if not own then
      own = {}
      keys[key], order[#order + 1] = own, key
    end
    own[#own + 1], own[#own + 2] = scores[at], scores[at + 1]
  end
  for _, key in ipairs(order) do
    redis.call("ZADD", root .. "keyed:" .. lane .. ":" .. key, unpack(keys[key]))
  end
  line_up(root, lane, order)
end
