-- why: no move
--
-- What blocks a task that has not ended, by the same functions that a claim uses: for each
-- condition a word, its subject, and when it ends, "" where it does not end at a known time.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 lane        JSON [number, rate, type, exclusive_ms, limits, rules]: its lane, as a claim
--                     receives it
--       4 limit       how many of its dependencies are listed
-- FLAGS allow-oom
-- REPLY OK <now> <state> [word, what, until]... | GONE | LANES; "price" blocks nothing, it is the
--       expected cost of the task in micro-USD

local root, task, lane, limit = ARGV[1], ARGV[2], cjson.decode(ARGV[3]), tonumber(ARGV[4])

local row = redis.call("HMGET", root .. "task:" .. task, "state", "lane", "due", "reason", "flags",
  "holder", "key")
local state, found, now = row[1], {}, values.now_ms()
if not state then
  return { "GONE" }
elseif tonumber(row[2]) ~= lane[1] then
  return { "LANES" }
end
if state == "PENDING" then
  why.waits(root, task, row[3], limit, found)
elseif state == "RETRYING" then
  found[#found + 1] = { "time", row[4] or "", row[3] or "" }
elseif state == "CREATED" then
  found[#found + 1] = { "unwritten", tasks.dag_of(row[5]) or "", "" }
elseif row[6] and state ~= "READY" then
  found[#found + 1] = { "worker", string.match(row[6], "^%S+ %S+ (.*)$") or "", "" }
end
if state == "READY" or state == "PENDING" or state == "RETRYING" then
  why.gates(root, now, lane, tasks.dag_of(row[5]), found)
  if lane[6] then
    why.tenant_gates(root, now, lane[6], row[7] or "", found)
  end
  why.budgets(root, now, task, tasks.dag_of(row[5]), found)
end
if state == "READY" and lane[4] then
  found[#found + 1] = { "alone", exclusive.reserved_by(root, now, lane[1]) or "", "" }
end
if state == "READY" and lane[6] and lane[6].fair then
  why.turns(root, lane, task, row[7] or "", found)
end
return { "OK", string.format("%.0f", now), state, unpack(found) }
