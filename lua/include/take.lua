-- @include take_heads
-- @include hold_heads rarely
-- The claim itself: up to `n` tasks for `who` from `lanes`, in exact order. The one function
-- behind a claim and behind the answer to a parked one. Where heads were held back it looks at
-- what stands behind them, ten times 250 heads however few it wants: those of a DAG that is just
-- being paused or given up, since what becomes READY of one that is does not enter its lane.
local function take(root, now, lanes, n, who)
  local given, held = take_heads(root, now, lanes, n, who)
  local rounds, last = 10, #given
  while held > 0 and #given < n and rounds > 0 do
    rounds = rounds - 1
    hold_heads(root, lanes, 250)
    who.begin = who.begin and who.begin - last
    local more
    more, held = take_heads(root, now, lanes, n - #given, who)
    for _, row in ipairs(more) do
      given[#given + 1] = row
    end
    last = #more
  end
  if held > 0 and #given < n then
    -- There may be more to take out of the way, and something behind it.
    redis.call("ZADD", root .. "wakes", now, "*")
  end
  return given
end
