-- The clock of a test. The moves of the library call this `redis` instead of the server's own, so
-- their time stands still until the test moves it. CLOCK contains it in ms.
--
-- Keys expire by this clock: the server gets an instant that is FAR in the future, and
-- rqueue/testing/timeline.py deletes expired keys. SEEN contains the time at which each entry was
-- last claimed or renewed. TASKS contains the tasks in the order in which they were written.
local CLOCK, SEEN, TASKS = "rqueue:test-clock", "rqueue:test-seen", "rqueue:test-tasks"
-- 3000 years, which no server reaches. Sums with it are still exact numbers in Lua.
local FAR = 100000000000000

local function clocked(server)
  -- More entries than are pending in any test.
  local EVERY = 1000000
  local commands = {}

  local function now_ms()
    return tonumber(server.call("GET", CLOCK))
  end

  local function whole(number)
    return string.format("%.0f", number)
  end

  -- Returns the index of the first `wanted` in a list, from an index on.
  local function find(words, wanted, from)
    for at = from, #words do
      if words[at] == wanted then
        return at
      end
    end
  end

  function commands.TIME()
    local now = now_ms()
    return { whole(math.floor(now / 1000)), whole(now % 1000 * 1000) }
  end

  -- Entry ids get this time. If an entry with the server's own time is later, the server chooses.
  function commands.XADD(call, ...)
    local words = { ... }
    local at = find(words, "*", 2)
    if at then
      words[at] = whole(now_ms()) .. "-*"
      local entry = server.pcall("XADD", unpack(words))
      if not entry.err then
        return entry
      end
      words[at] = "*"
    end
    return call("XADD", unpack(words))
  end

  function commands.PEXPIRE(call, key, ms)
    if tonumber(ms) <= 0 then
      return call("PEXPIRE", key, ms)
    end
    return call("PEXPIREAT", key, whole(now_ms() + ms + FAR))
  end

  function commands.SET(call, ...)
    local words = { ... }
    local at = find(words, "PX", 3)
    if at then
      words[at], words[at + 1] = "PXAT", whole(now_ms() + words[at + 1] + FAR)
    end
    return call("SET", unpack(words))
  end

  function commands.PTTL(call, key)
    local at = call("PEXPIRETIME", key)
    return at < 0 and at or at - FAR - now_ms()
  end

  -- Claiming an entry renews it. All calls have JUSTID, so they return ids only.
  function commands.XCLAIM(call, stream, ...)
    local taken = call("XCLAIM", stream, ...)
    for _, entry in ipairs(taken) do
      server.call("HSET", SEEN, stream .. " " .. entry, whole(now_ms()))
    end
    return taken
  end

  -- Entries are idle since they were last claimed or renewed.
  local function pending(call, stream, group, idle_ms, from, to, count, ...)
    local found, now = {}, now_ms()
    local all = call("XPENDING", stream, group, from, to, idle_ms > 0 and EVERY or count, ...)
    for _, held in ipairs(all) do
      local seen = server.call("HGET", SEEN, stream .. " " .. held[1])
      held[3] = seen and now - seen or held[3]
      if held[3] >= idle_ms and #found < tonumber(count) then
        found[#found + 1] = held
      end
    end
    return all.err and all or found
  end

  function commands.XPENDING(call, stream, group, ...)
    local words = { ... }
    if #words == 0 then
      return call("XPENDING", stream, group)
    elseif words[1] == "IDLE" then
      return pending(call, stream, group, tonumber(words[2]), unpack(words, 3))
    end
    return pending(call, stream, group, 0, ...)
  end

  function commands.HSET(call, key, ...)
    local task = string.match(key, "{.*}:task:(%w+)$")
    if task then
      server.call("ZADD", TASKS, "NX", server.call("ZCARD", TASKS), task)
    end
    return call("HSET", key, ...)
  end

  local function through(call)
    return function(name, ...)
      local command = commands[name]
      if command then
        return command(call, ...)
      end
      return call(name, ...)
    end
  end

  return setmetatable({ call = through(server.call), pcall = through(server.pcall) },
    { __index = server })
end
