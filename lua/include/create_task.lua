-- @include add_field
-- @include def_fields
-- @include lead_to
-- @include block_task
-- @include due_of
-- @include note_namesake
-- Writes a task of a DAG that is not committed yet. `new` is { id, place, def, flags, above, below,
-- text, more, ask, outside, fired, inside, sole }; `at` is the time as text. It is CREATED until
-- the commit reaches it; one that waits inside is PENDING at once, and nobody sees it. Up to 16
-- parents are in the hash, two in a field, so that it stays a listpack; more are in a list. Where
-- there is but one, `sole` says so instead of a set, see link_task.
local function create_task(root, now, at, dag, new)
  local place, above, price = new.place, new.above, new.place.kind.price
  local fields = { "state", new.inside and "PENDING" or "CREATED", "lane", place.kind.number,
    "score", place.score, "created", at, "flags", new.flags .. (price ~= "" and "c" or "") .. dag,
    "rank", place.rank }
  local due = new.ask and due_of(new.ask, now)
  add_field(fields, "price", price ~= "" and price)
  add_field(fields, "sole", new.sole and 1)
  add_field(fields, "more", new.text)
  add_field(fields, "due", due)
  add_field(fields, "down", new.below ~= "" and new.below)
  add_field(fields, "fired", new.fired and 1)
  if new.text then
    note_namesake(root, fields, new.more.ext)
    lead_to(root, now, new.id, new.more)
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
