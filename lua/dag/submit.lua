-- submit: - -> CREATED | PENDING
--
-- Writes tasks of a DAG, a part of them in each call. They are not visible until the DAG is
-- committed; a DAG that is refused, or not written completely, is dropped. A repeated call changes
-- nothing. Dependencies inside the DAG are written before their dependents.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 facts       JSON [field, value, ...] of the DAG
--       4 lanes       a line "<rate> <signature>" for each lane of the whole DAG
--       5 max_lanes   how many lanes the shard may have
--       6 follow      "" or the DAG to submit when this one has completed, as JSON
--       7 who         "" or the submitting principals; if one may not, nothing is written, see
--                     calls.refusal
--       8 most        how many ended tasks may wait for the archive, 0: any number; "": see
--                     calls.refusal
-- EACH  task          its id; again, without a definition, where it has more dependencies than fit
--       place         "<number of its line> <base> <rank>", see lua/task/submit.lua; the rank is
--                     the part of the base that comes from the critical path
--       def           the definition, opaque
--       flags         m: something is stored with it; d: tasks of this DAG wait for its completion;
--                     h: for its end, whatever the outcome; p: it has more than 16 dependencies
--                     here; o: exactly one task depends on it, which has u: it is the only
--                     dependent of each of its dependencies
--       parents       ids of its dependencies in this DAG, separated by spaces
--       special       "" or two lines of JSON, each may be empty: what is stored with the task, and
--                     what this call needs {delay, at, outside}: outside are dependencies that are
--                     not in this DAG
--       below         "" or, with flag o, the id of its only dependent
-- REPLY OK | LANES | STATE <found> | PARENT <task> <id> | EXISTS <task> <id>
--       | FORBIDDEN <who> | FULL <waiting>

local root, dag, facts, max_lanes = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local follow, who, most, first, stride = ARGV[6], ARGV[7], ARGV[8], 9, 7

local now, key, new_tasks = values.now_ms(), root .. "dag:" .. dag, {}
local kinds = lanes.parse_kinds(ARGV[4], now)
local row = redis.call("HMGET", key, "status", "dropping")
local status, ids, names = row[1], {}, {}
if row[2] then
  return { "STATE", "dropping" }
end
-- A call for a committed DAG is a repeated one, and returns the same whatever is allowed now.
local refused, why = calls.refusal(root, who, most)
if refused and (status or "writing") == "writing" then
  return { refused, why }
end
for at = first, #ARGV, stride do
  ids[#ids + 1] = root .. "task:" .. ARGV[at]
end
local any_known = redis.call("EXISTS", unpack(ids)) > 0
for at = first, #ARGV, stride do
  local new, unfit = create.read(root, ARGV, dag, at, any_known, names)
  if status and status ~= "writing" then
    return new.known and { "OK" } or { "STATE", status }
  elseif unfit then
    return unfit
  end
  new_tasks[#new_tasks + 1] = new
end
for _, kind in ipairs(kinds) do
  if not lanes.number_of(root, kind, max_lanes, now) then
    return { "LANES" }
  end
end

if not status then
  redis.call("HSET", key, "status", "writing", "created", string.format("%.0f", now),
    "total", 0, "open", 0, "dead", 0, "cancelled", 0, "edges", 0, unpack(cjson.decode(facts)))
  if follow ~= "" then
    redis.call("SET", root .. "follow:" .. dag, follow)
  end
end
redis.call("ZADD", root .. "writing", now, dag)
local places = {}
for _, new in ipairs(new_tasks) do
  places[new.place] = places[new.place] or lanes.parse_place(kinds, new.place)
  new.place = places[new.place]
end
create.many(root, now, dag, new_tasks)
local fresh = {}
for _, new in ipairs(new_tasks) do
  if not new.known and not new.inside then
    fresh[#fresh + 1] = new.id
  end
end
if #fresh > 0 then
  redis.call("RPUSH", root .. "fresh:" .. dag, unpack(fresh))
end
return { "OK" }
