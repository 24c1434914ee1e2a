-- Goes on in the stream for a sink, at most a page and until `room` is filled: adds what it wants
-- to `picked` as { notice, 0 }, and returns whether there may be more.
local function new_notices(key, notices, row, how)
  local last, wants = row[1], " " .. row[2] .. " "
  local page = redis.call("XRANGE", notices, "(" .. last, "+", "COUNT", how.page)
  for at, entry in ipairs(page) do
    if how.room == 0 then
      break
    end
    last = entry[1]
    -- Its first field is the name of the event.
    if string.find(wants, " " .. entry[2][2] .. " ", 1, true) then
      how.picked[#how.picked + 1] = { last, 0 }
      how.room = how.room - 1
    end
    how.seen = at
  end
  if how.seen then
    redis.call("HSET", key, "last", last)
  end
  return #page == tonumber(how.page) or (how.seen or 0) < #page
end
