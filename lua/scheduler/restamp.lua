-- restamp: no move
--
-- Resets the idle time of a page of leases to 0. After a backward step of the clock they would
-- otherwise seem active for the length of the step.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 from        "-", or "(" and the last entry of the page before
--       2 limit       how many at most
-- FLAGS allow-oom
-- REPLY OK <last entry, "" at the end>

local ready = KEYS[1]
local from, limit = ARGV[1], tonumber(ARGV[2])

local page = redis.pcall("XPENDING", ready, "workers", from, "+", limit)
if page.err then
  return { "OK", "" }
end
for _, held in ipairs(page) do
  redis.call("XCLAIM", ready, "workers", held[2], 0, held[1], "JUSTID")
end
return { "OK", #page == limit and page[#page][1] or "" }
