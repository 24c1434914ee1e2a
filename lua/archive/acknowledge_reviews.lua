-- acknowledge_reviews: no move
--
-- The rows of these reviews are committed to the archive: they leave the stream.
--
-- KEYS  1 reviews     stream  what was decided about dead tasks
-- EACH  entry         id of a review
-- FLAGS allow-oom
-- REPLY OK <reviews that were still there>

local reviews = KEYS[1]
local first, stride = 1, 1

local gone = 0
for at = first, #ARGV, stride do
  gone = gone + redis.call("XDEL", reviews, ARGV[at])
end
return { "OK", gone }
