-- @include is_keyed
-- @include leave_hands rarely
-- A task leaves the hand: where somebody found a limit of those at once used up, the promoter
-- answers who waits. A completion does that by itself, see heed_success and leave_hands.
local function let_in(root, id, lane)
  if is_keyed(lane) then
    leave_hands(root, { id })
  end
  if redis.call("EXISTS", root .. "crowded") == 1 then
    for _, what in ipairs(redis.call("SMEMBERS", root .. "crowded")) do
      redis.call("ZADD", root .. "wakes", 0, what)
    end
    redis.call("DEL", root .. "crowded")
  end
end
