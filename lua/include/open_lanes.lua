-- @include gates_of rarely
-- @include purse_of rarely
-- @include can_afford rarely
-- @include group_lanes rarely
-- The lanes of a list of { number, rate, type, alone, limits, rules, cost class } that may be
-- served now with `n` tasks for `who`: none that is paused, at rest, slowed down, at its limit or
-- too dear. `alone` is false, or for how many ms a worker keeps its hands free for the lane's
-- tasks; `gates` is nil, or what lets only some pass. A lane of keys has `rules`, and the gates of
-- keys in `doors`; `keyed` where there is any. One that has any of this is `checked` at each pick.
-- Where prices must be looked at, `who` gets a purse.
local function open_lanes(root, now, lanes, n, who)
  local open, doors = {}, {}
  local any = redis.call("EXISTS", root .. "paused", root .. "breakers", root .. "slowed",
    root .. "budgets") > 0
  for _, lane in ipairs(lanes) do
    any = any or lane[5]
  end
  local gates = any and gates_of(root, now, lanes)
  local purse = any and purse_of(root, now, who.consumer)
  for _, lane in ipairs(lanes) do
    if (not gates or gates[lane[1]])
      and (not purse or can_afford(root, now, purse, lane, n)) then
      local own = gates and gates[lane[1]][1] and gates[lane[1]]
      open[#open + 1] = { number = lane[1], rate = lane[2], alone = lane[4], picked = {},
        gates = own, rules = lane[6], doors = doors, priced = lane[7],
        checked = lane[4] or own or lane[6] or purse and lane[7] }
      open.keyed, open.priced = open.keyed or lane[6], open.priced or lane[7]
    end
  end
  if open.keyed then
    group_lanes(root, open)
  end
  who.money, who.purse = purse, purse and purse.tight and purse
  return open
end
