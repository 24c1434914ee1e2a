-- submit: - -> CREATED | PENDING
--
-- Writes tasks of a DAG, a part of them in each call. Nobody sees them until the DAG is committed:
-- what is refused, or left half-written, is dropped again. A part that is sent again changes
-- nothing. Parents of the same DAG come before their children.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 dag         its ULID
--       3 facts       JSON [field, value, ...] of the DAG
--       4 lanes       a line "<rate> <signature>" for each lane of the whole DAG
--       5 max_lanes   how many lanes the shard may have
--       6 follow      "" or the DAG to be submitted when this one has completed, as JSON
--       7 who         "" or who asks: where one may not, nothing is written; see refusal
--       8 most        how many ended tasks may wait for the archive, 0: any; "": see refusal
-- EACH  task          its id; again, with no definition, where it has more parents than fit
--       place         "<number of its line> <base> <rank>", see lua/task/submit.lua; the rank is
--                     the part of the base that is for the critical path
--       def           the definition, opaque
--       flags         m: there is something to keep with it; d: tasks of this DAG depend on it;
--                     h: they wait for its end; p: it has more than 16 parents here; o: one alone
--                     depends on it, which is u: so it is with each of that one's parents
--       parents       ids of its parents in this DAG, a space between two
--       special       "" or two lines of JSON, each may be empty: what is kept with the task, and
--                     what is asked of this call {delay, at, outside}: parents in no part of it
--       below         "" or, of one that is o, the id of its one dependent
-- REPLY OK | LANES | STATE <found> | PARENT <task> <id> | EXISTS <task> <id>
--       | FORBIDDEN <who> | FULL <waiting>

local root, dag, facts, max_lanes = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local follow, who, most, first, stride = ARGV[6], ARGV[7], ARGV[8], 9, 7

local now, key, news = values.now_ms(), root .. "dag:" .. dag, {}
local kinds = lanes.parse_kinds(ARGV[4], now)
local row = redis.call("HMGET", key, "status", "dropping")
local status, ids, names = row[1], {}, {}
if row[2] then
  return { "STATE", "dropping" }
end
-- One that is committed was asked for before: whoever sends it again is told the same.
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
  news[#news + 1] = new
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
for _, new in ipairs(news) do
  places[new.place] = places[new.place] or lanes.parse_place(kinds, new.place)
  new.place = places[new.place]
end
create.many(root, now, dag, news)
local fresh = {}
for _, new in ipairs(news) do
  if not new.known and not new.inside then
    fresh[#fresh + 1] = new.id
  end
end
if #fresh > 0 then
  redis.call("RPUSH", root .. "fresh:" .. dag, unpack(fresh))
end
return { "OK" }
