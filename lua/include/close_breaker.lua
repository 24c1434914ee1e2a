-- @include emit
-- Closes the breaker of a type and forgets its failures. `was` is its state: of one that was open
-- the others are told.
local function close_breaker(root, type, was, events)
  redis.call("DEL", root .. "breaker:" .. type)
  redis.call("SREM", root .. "breakers", type)
  redis.call("ZREM", root .. "wakes", type)
  if was then
    emit(root, events, "breaker.closed", type, was)
  end
end
