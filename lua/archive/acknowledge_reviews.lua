-- acknowledge_reviews: no move
--
-- Deletes reviews from the stream after their rows are committed to the archive.
--
-- KEYS  1 reviews     stream  decisions about dead tasks
-- EACH  entry         id of a review
-- FLAGS allow-oom
-- REPLY OK <deleted reviews>

local reviews = KEYS[1]
local first, stride = 1, 1

local deleted = 0
for at = first, #ARGV, stride do
  deleted = deleted + redis.call("XDEL", reviews, ARGV[at])
end
return { "OK", deleted }
