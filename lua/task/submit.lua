-- submit: - -> PENDING | READY
--
-- Enqueues new tasks, many in one call, each independent of the others: a refused task leaves no
-- key behind and does not stop the rest. An id that exists was sent before: nothing is written, and
-- the reply is the same.
--
-- KEYS  1 ready       stream  one entry per task that may run
-- ARGV  1 root        prefix of every key of the shard
--       2 lanes       a line "<rate>[$<price>] <signature>" for each kind of task of this call, see
--                     lanes.parse_kinds; the rate is in millionths of a point a minute
--       3 max_lanes   how many lanes the shard may have
--       4 tries       how many waiting claims are tried at most
--       5 how         JSON {archive, ttl, events} for tasks that are replaced
--       6 who         "" or the principals of the caller: where one may not submit, nothing is
--                     accepted; see calls.refusal
--       7 most        how many ended tasks may wait for the archive, 0: any number; "": see
--                     calls.refusal
-- EACH  task          its id
--       place         "<number of its line> <base>", with a tenant "<line>@<tenant> <base>": the
--                     base is its priority less its boosts at this moment, in millionths of a point
--       def           the definition, opaque
--       special       "" or two lines of JSON, each may be empty: what is stored with the task
--                     {idem, tags, ...} and options of this call {delay, at, parents, if_exists}
-- REPLY OK <more> [<at> <word> <detail>]...: EXISTS id | LANES | PARENT id | FORBIDDEN by | FULL n

local root, max_lanes, tries, how = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local who, most, ready, first, stride = ARGV[6], ARGV[7], KEYS[1], 8, 4
local refused, why, archive = calls.refusal(root, who, most)
local single = not refused and #ARGV == first + stride - 1 and ARGV[first + 3] == ""
  and plain.one(root, ARGV[2], tries, ARGV[first], ARGV[first + 1], ARGV[first + 2])
if single then
  return single
end

local now, places, touched = values.now_ms(), {}, {}
local kinds, keys, here, made, reply = lanes.parse_kinds(ARGV[2], now), {}, {}, 0, { "OK", 0 }
for at = first, #ARGV, stride do
  keys[#keys + 1] = root .. "task:" .. ARGV[at]
end
local any_known = redis.call("EXISTS", unpack(keys)) > 0
for at = first, #ARGV, stride do
  local id, def, options = ARGV[at], ARGV[at + 2], ARGV[at + 3]
  local place = places[ARGV[at + 1]] or lanes.parse_place(kinds, ARGV[at + 1])
  places[ARGV[at + 1]] = place
  local kind, points = place.kind, place.score
  local key, word, detail, more, call_options = keys[(at - first) / stride + 1], nil, "", ""
  if here[id] or (any_known and redis.call("EXISTS", key) == 1) then
    word = "KNOWN"
  elseif refused then
    word, detail = refused, why
  elseif options ~= "" then
    more, call_options = string.match(options, "^([^\n]*)\n(.*)$")
    word, detail = special.submit(root, now, { id = id, kind = kind, max_lanes = max_lanes,
      score = points, def = def, more = more, call_options = call_options, how = how,
      tenant = place.tenant, archive = archive })
  elseif not lanes.number_of(root, kind, max_lanes, now) then
    word = "LANES"
  end
  if not word or word == "PENDING" then
    here[id], made = place.tenant or true, made + 1
    if kind.price ~= "" then
      accounts.write_price(key, kind.price, options == "")
    end
  end
  if not word then
    local scores, entry = kind.scores, redis.call("XADD", ready, "*", "task", id)
    plain.write(root, id, key, entry, kind.number, points, def, place.tenant)
    touched[kind.number] = true
    if more == "" then
      scores[#scores + 1], scores[#scores + 2] = points, id
    else
      -- A later task of this call may replace or delay it: it enters its lane at once.
      lanes.enter(root, kind.number, { points, id })
    end
  elseif word ~= "PENDING" and word ~= "KNOWN" then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = (at - first) / stride, word, detail
  end
end
if made > 0 then
  redis.call("HINCRBY", root .. "stats", "submitted", made)
end
for _, kind in pairs(kinds) do
  if #kind.scores > 0 then
    lanes.enter(root, kind.number, kind.scores, here)
  end
end
reply[2] = next(touched) and answer.touched(root, now, touched, tonumber(tries)) and 1 or 0
return reply
