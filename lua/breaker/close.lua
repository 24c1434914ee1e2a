-- close: no move
--
-- Lets the tasks of a type be handed out again, and forgets its failures; who waits for them is
-- answered. One that is closed stays so.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 type        whose breaker it is
--       3 tries       how many parked claims may be looked at
--       4 events      length of the events stream
-- TOUCHES breaker:<type> breakers wakes events types + what answer_waiting touches
-- FLAGS allow-oom
-- REPLY OK <more>

-- @include now_ms
-- @include close_breaker
-- @include touch_type
-- @include answer_touched

local root, type, tries, events = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local was, touched = redis.call("HGET", root .. "breaker:" .. type, "state"), {}
close_breaker(root, type, was, events)
if was then
  touch_type(root, type, touched)
end
return { "OK", answer_touched(root, now_ms(), touched, tries) and 1 or 0 }
