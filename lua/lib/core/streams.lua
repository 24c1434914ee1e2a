-- Consumer groups of the inbox and the outbox.

-- Creates the consumer group of a stream if it does not exist. Returns the id of the entry that was
-- delivered to it last.
function streams.ensure_group(stream, group)
  for _, facts in ipairs(redis.call("XINFO", "GROUPS", stream)) do
    -- name <name> consumers <n> pending <n> last-delivered-id <entry>
    if facts[2] == group then
      return facts[8]
    end
  end
  redis.call("XGROUP", "CREATE", stream, group, "0")
  return "0-0"
end

-- The entries of a stream that a reader holds already, else those of readers that have been silent
-- for `terms.idle_ms`: they are processed before new ones. Where `terms.after` is given, the reader
-- has postponed its entries up to that one, and they are left out.
function streams.held_entries(stream, group, reader, terms)
  local found = {}
  local held = redis.call("XREADGROUP", "GROUP", group, reader, "COUNT", terms.limit,
    "STREAMS", stream, terms.after or "0")
  for _, entry in ipairs(held and held[1][2] or {}) do
    -- A deleted entry has no fields; XAUTOCLAIM removes it from the pending list.
    if entry[2] then
      found[#found + 1] = entry
    end
  end
  if #found == 0 then
    found = redis.call("XAUTOCLAIM", stream, group, reader, terms.idle_ms, "0-0",
      "COUNT", terms.limit)[2]
  end
  return found
end

-- Whether readers other than this one hold entries of a stream.
local function others_hold(stream, group, reader)
  -- <count> <first> <last> [[reader, count], ...]
  for _, held in ipairs(redis.call("XPENDING", stream, group)[4] or {}) do
    if held[1] ~= reader then
      return true
    end
  end
  return false
end

-- The next entries for a reader of the inbox. Field `last` of the result is the newest entry where
-- there are new ones, also where these must wait until other readers have processed theirs.
function streams.inbox_entries(inbox, group, reader, terms)
  local found = streams.held_entries(inbox, group, reader, terms)
  if #found == 0 and others_hold(inbox, group, reader) then
    local newest = redis.call("XREVRANGE", inbox, "+", "-", "COUNT", "1")[1]
    found.last = newest and newest[1]
  elseif #found == 0 then
    local new = redis.call("XREADGROUP", "GROUP", group, reader, "COUNT", terms.limit,
      "STREAMS", inbox, ">")
    found = new and new[1][2] or {}
    found.last = #found > 0 and found[#found][1] or nil
  end
  return found
end

-- Removes the readers that hold nothing and have been silent for `idle_ms` from the group, except
-- the calling one.
function streams.forget_readers(stream, group, reader, idle_ms)
  for _, facts in ipairs(redis.call("XINFO", "CONSUMERS", stream, group)) do
    -- name <name> pending <n> idle <ms>
    if facts[2] ~= reader and facts[4] == 0 and facts[6] >= tonumber(idle_ms) then
      redis.call("XGROUP", "DELCONSUMER", stream, group, facts[2])
    end
  end
end
