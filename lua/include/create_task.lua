-- @include def_fields
-- @include lead_to
-- @include block_task
-- @include due_of
-- Writes a task of a DAG that is not committed yet: CREATED, in no index. `new` is { id, place,
-- def, flags, above, text, more, ask, outside, fired }; `at` is the time as text. Up to 16 parents
-- are in the hash, two in a field, so that it stays a listpack; more are in a list, see link_task.
local function create_task(root, now, at, dag, new)
  local place, above = new.place, new.above
  local fields = { "state", "CREATED", "lane", place.kind.number, "score", place.score,
    "created", at, "flags", new.flags .. dag, "rank", place.rank }
  local due = new.ask and due_of(new.ask, now)
  if new.text then
    fields[#fields + 1], fields[#fields + 2] = "more", new.text
    local before = new.more.ext and redis.call("GET", root .. "ext:" .. new.more.ext)
    if before then
      fields[#fields + 1], fields[#fields + 2] = "namesake", before
    end
    lead_to(root, now, new.id, new.more)
  end
  if due then
    fields[#fields + 1], fields[#fields + 2] = "due", due
  end
  if new.fired then
    fields[#fields + 1], fields[#fields + 2] = "fired", 1
  end
  -- An id is 26 letters, and a space stands between two.
  for from = 1, #above <= 431 and #above or 0, 54 do
    fields[#fields + 1] = "up" .. (from - 1) / 54
    fields[#fields + 1] = string.sub(above, from, from + 52)
  end
  if def_fields(fields, new.def) then
    redis.call("SET", root .. "def:" .. new.id, new.def)
  end
  redis.call("HSET", root .. "task:" .. new.id, unpack(fields))
  if due or new.outside then
    block_task(root, new.id, new.outside or {}, due, new.more.trigger)
  end
end
