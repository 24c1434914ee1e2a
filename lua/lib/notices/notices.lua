-- Notices for sinks: each sink has its own position in the stream.

-- The notices that were taken for a sink and not delivered, each as { notice, tries }: `mine` were
-- taken by this taker, `due` are to be tried again; `kept` counts the others, which are not due
-- yet.
function notices.undelivered(key, undelivered, now, taker)
  local open = { mine = {}, due = {}, kept = 0 }
  local page = redis.call("ZRANGE", undelivered, 0, -1, "WITHSCORES")
  for at = 1, #page, 2 do
    local notice, due = page[at], tonumber(page[at + 1])
    local tries, holder = string.match(redis.call("HGET", key, notice) or "0 ", "^(%d+) (.*)$")
    if holder == taker then
      open.mine[#open.mine + 1] = { notice, tonumber(tries) }
    elseif due <= now then
      open.due[#open.due + 1] = { notice, tonumber(tries) }
    else
      open.kept = open.kept + 1
    end
  end
  return open
end

-- A notice as a notifier receives it, { notice, tries, name, value, ... }; nil where the stream
-- does not contain it any more.
function notices.row(root, notice, tries)
  local entry = redis.call("XRANGE", root .. "notices", notice, notice)[1]
  local row = entry and { notice, tries }
  for _, word in ipairs(entry and entry[2] or {}) do
    row[#row + 1] = word
  end
  return row
end

-- Reads on in the stream for a sink, at most one page and until `room` is filled. Adds the notices
-- that the sink wants to `picked` as { notice, 0 }, and returns whether there may be more.
function notices.read_new(key, stream, row, how)
  local last, wants = row[1], " " .. row[2] .. " "
  local page = redis.call("XRANGE", stream, "(" .. last, "+", "COUNT", how.page)
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

-- Deletes the notices that no sink needs any more: those before the first one that some sink has
-- not delivered or not reached yet. Without any sink, deletes all of them.
function notices.trim(root)
  local first
  for _, sink in ipairs(redis.call("ZRANGE", root .. "sinks", 0, -1)) do
    local last = redis.call("HGET", root .. "sink:" .. sink, "last") or "0-0"
    local ms, at = string.match(last, "^(%d+)-(%d+)$")
    local needed = string.format("%s-%.0f", ms, at + 1)
    for _, notice in ipairs(redis.call("ZRANGE", root .. "undelivered:" .. sink, 0, -1)) do
      needed = values.precedes(notice, needed) and notice or needed
    end
    first = (not first or values.precedes(needed, first)) and needed or first
  end
  if first then
    redis.call("XTRIM", root .. "notices", "MINID", "=", first)
  else
    redis.call("DEL", root .. "notices")
  end
end

-- Rewrites the set of the events that become notices: those that at least one sink wants.
function notices.index_wanted(root)
  redis.call("DEL", root .. "noticed")
  for _, sink in ipairs(redis.call("ZRANGE", root .. "sinks", 0, -1)) do
    local wants = redis.call("HGET", root .. "sink:" .. sink, "wants") or ""
    for name in string.gmatch(wants, "%S+") do
      redis.call("SADD", root .. "noticed", name)
    end
  end
end
