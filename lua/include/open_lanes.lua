-- @include gates_of rarely
-- The lanes of a list of { number, rate, type, alone, limits, rules } that may be served now: none
-- that is paused, at rest, slowed down or at its limit. `alone` is false, or for how many ms a
-- worker keeps its hands free for the lane's tasks; `gates` is nil, or what lets only some pass.
-- A lane of keys has `rules`, and the gates of keys in `doors`; `keyed` where there is any. One
-- that has any of this is `checked` at each pick.
local function open_lanes(root, now, lanes)
  local open, doors = {}, {}
  local any = redis.call("EXISTS", root .. "paused", root .. "breakers", root .. "slowed") > 0
  for _, lane in ipairs(lanes) do
    any = any or lane[5]
  end
  local gates = any and gates_of(root, now, lanes)
  for _, lane in ipairs(lanes) do
    if not gates or gates[lane[1]] then
      local own = gates and gates[lane[1]][1] and gates[lane[1]]
      open[#open + 1] = { number = lane[1], rate = lane[2], alone = lane[4], picked = {},
        gates = own, rules = lane[6], doors = doors, checked = lane[4] or own or lane[6] }
      open.keyed = open.keyed or lane[6]
    end
  end
  return open
end
