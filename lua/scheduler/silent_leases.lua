-- silent_leases: no move
--
-- Returns a page of the leases that were not renewed for at least `idle_ms`, oldest entry first.
--
-- KEYS  1 ready       stream  its pending list holds the leases
-- ARGV  1 root        prefix of every key of the shard
--       2 idle_ms     how long they were not renewed, at least
--       3 from        "-", or "(" and the last entry of the page before
--       4 limit       how many at most
-- FLAGS no-writes allow-oom
-- REPLY OK [[task, entry, consumer, idle ms, state, token, lane]]...; task is "" for a lost entry

local ready = KEYS[1]
local root, idle_ms, from, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local reply = { "OK" }
local page = redis.pcall("XPENDING", ready, "workers", "IDLE", idle_ms, from, "+", limit)
for _, held in ipairs(page.err and {} or page) do
  local entry = redis.call("XRANGE", ready, held[1], held[1])[1]
  local id = entry and entry[2][2] or ""
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "token", "lane")
  reply[#reply + 1] = { id, held[1], held[2], held[3], row[1] or "", row[2] or "",
    row[3] or "0" }
end
return reply
