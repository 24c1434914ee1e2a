-- sweep: no move
--
-- Checks a page of the stream and of its pending list. Deletes an entry that is not the one its
-- task names, and a lease on a task that is not leased.
--
-- KEYS  1 ready       stream  one entry per READY or leased task
-- ARGV  1 root        prefix of every key of the shard
--       2 from        "-", or "(" and the last entry of the page before
--       3 limit       how many entries at most
-- FLAGS allow-oom
-- REPLY OK <last entry, "" at the end> <repaired>

local ready = KEYS[1]
local root, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local page, states, strays = redis.call("XRANGE", ready, from, "+", "COUNT", limit), {}, 0
for _, found in ipairs(page) do
  local entry, id = found[1], found[2][2]
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "entry")
  local state = row[1]
  if row[2] == entry and (state == "READY" or state == "CLAIMED" or state == "RUNNING"
    or state == "VALIDATING") then
    states[entry] = state
  else
    indexes.delete_entry(root, entry)
    strays = strays + 1
  end
end
local last = #page == limit and page[#page][1] or ""
-- There may be leases on deleted entries: it reads up to twice as many leases as entries.
local held = redis.pcall("XPENDING", ready, "workers", from, last == "" and "+" or last, 2 * limit)
for _, lease in ipairs(held.err and {} or held) do
  local state = states[lease[1]]
  if not state or state == "READY" then
    redis.call("XACK", ready, "workers", lease[1])
    strays = strays + 1
  end
end
return { "OK", last, mend.count_repaired(root, strays) }
