-- Writes the tasks of a DAG before it is committed.

-- Adds to the fields of a new task the id of the task that has its external id until now, if there
-- is one, so that this can be restored, see restore_ext.
local function note_ext_holder(root, fields, ext)
  values.add_field(fields, "namesake", ext and redis.call("GET", root .. "ext:" .. ext))
end

-- Writes a task of a DAG that is not committed yet. `new` is { id, place, def, flags, above, below,
-- text, more, options, outside, fired, inside, sole }; `at` is the time as text. The task is
-- CREATED until the commit reaches it; one that waits `inside` is PENDING at once, and not visible.
-- Up to 16 dependencies are in the hash, two in a field, so that it stays a listpack; more are in a
-- list. For a single one, `sole` replaces the set, see edges.link.
local function create_task(root, now, at, dag, new)
  local place, above, price = new.place, new.above, new.place.kind.price
  local fields = { "state", new.inside and "PENDING" or "CREATED", "lane", place.kind.number,
    "score", place.score, "created", at, "flags", new.flags .. (price ~= "" and "c" or "") .. dag,
    "rank", place.rank }
  local due = new.options and tasks.due_of(new.options, now)
  values.add_field(fields, "price", price ~= "" and price)
  values.add_field(fields, "sole", new.sole and 1)
  values.add_field(fields, "more", new.text)
  values.add_field(fields, "due", due)
  values.add_field(fields, "down", new.below ~= "" and new.below)
  values.add_field(fields, "fired", new.fired and 1)
  if new.text then
    note_ext_holder(root, fields, new.more.ext)
    special.write_names(root, now, new.id, new.more)
  end
  -- An id has 26 letters, and a space separates two.
  for from = 1, #above <= 431 and #above or 0, 54 do
    fields[#fields + 1] = "up" .. (from - 1) / 54
    fields[#fields + 1] = string.sub(above, from, from + 52)
  end
  if definition.add_fields(fields, new.def) then
    redis.call("SET", root .. "def:" .. new.id, new.def)
  end
  redis.call("HSET", root .. "task:" .. new.id, unpack(fields))
  if due or new.outside then
    indexes.block(root, new.id, new.outside or {}, due, new.more.trigger)
  end
end

-- Writes a task of a DAG that waits for one other of it and has no options and a definition of up
-- to three pieces, as most do: written out, since a list for each would cost more. See create_task.
local function create_plain(root, at, dag, new)
  local key, place, def, flags = root .. "task:" .. new.id, new.place, new.def, new.flags .. dag
  if #def <= 128 then
    redis.call("HSET", key, "state", "PENDING", "lane", place.kind.number, "score", place.score,
      "created", at, "flags", flags, "rank", place.rank, "sole", 1, "up0", new.above,
      "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65), "down", new.below)
  else
    redis.call("HSET", key, "state", "PENDING", "lane", place.kind.number, "score", place.score,
      "created", at, "flags", flags, "rank", place.rank, "sole", 1, "up0", new.above,
      "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65, 128),
      "def2", string.sub(def, 129), "down", new.below)
  end
end

-- Writes tasks of a DAG, and further dependencies of those that are `known`; counts all of them at
-- once. Their dependencies within the DAG have the flag of a task with dependents already.
function create.many(root, now, dag, news)
  local members, dependents, by_lane, waiting, edge_count = {}, {}, {}, {}, 0
  local at = string.format("%.0f", now)
  for _, new in ipairs(news) do
    if not new.known then
      local short = #new.def > 64 and #new.def <= 192 and not new.more and new.below ~= ""
      if short and new.sole and new.place.kind.price == "" then
        create_plain(root, at, dag, new)
      else
        create_task(root, now, at, dag, new)
      end
      if new.place.tenant then
        redis.call("HSET", root .. "task:" .. new.id, "key", new.place.tenant)
      end
      local lane = new.place.kind.number
      members[#members + 1], by_lane[lane] = new.id, (by_lane[lane] or 0) + 1
      edge_count = edge_count + (new.outside and #new.outside or 0)
      if new.inside then
        waiting[lane] = (waiting[lane] or 0) + 1
      end
    end
    if new.above ~= "" then
      edge_count = edge_count + edges.link(root, new, dependents)
    end
  end
  for dependency, list in pairs(dependents) do
    redis.call("ZADD", root .. "dependents:" .. dependency, unpack(list))
  end
  for lane, number in pairs(by_lane) do
    lanes.count(root, lane, "CREATED", number)
  end
  status.count_new(root, dag, members, waiting, edge_count)
end

-- Reads a task of a DAG from `args` at position `at`. Also returns why it is refused, if it is: a
-- dependency outside the DAG does not exist, or its id or its external id belongs to another task:
-- a stored one, or an earlier one of this call, whose external ids are in `names`. A task that
-- waits `inside` can be unblocked only by tasks of its DAG, so not before its commit; `sole`: by
-- exactly one.
function create.read(root, args, dag, at, any_known, names)
  local id, options = args[at], args[at + 5]
  local def, above = args[at + 2], args[at + 4]
  -- All fields at once: a table that grows is allocated anew.
  local new = { id = id, place = args[at + 1], def = def, flags = args[at + 3], above = above,
    below = args[at + 6], inside = above ~= "", sole = #above == 26 and def ~= "" }
  if any_known then
    local found = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
    new.known = found[1] and true
    if found[1] and tasks.dag_of(found[2]) ~= dag then
      return new, { "EXISTS", id, id }
    end
  end
  if options == "" then
    return new
  end
  local text, call_text = string.match(options, "^([^\n]*)\n(.*)$")
  new.more, new.options = values.decoded(text), values.decoded(call_text)
  new.text = text ~= "" and text or nil
  local ext, trigger = new.more.ext, new.more.trigger
  new.inside = new.inside and call_text == "" and not trigger and not ext
  new.sole = new.inside and new.sole
  local outside, lost, fired = edges.unmet(root, new.options.outside or {}, trigger, above ~= "")
  new.outside, new.fired = outside, fired
  local ext_holder = ext and not new.known and (names[ext] or special.holder_of_ext(root, ext))
  if ext then
    names[ext] = id
  end
  if not new.outside then
    return new, { "PARENT", id, lost }
  end
  return new, ext_holder and { "EXISTS", id, ext_holder } or nil
end

-- Restores the external id of a deleted task to the task that had it before, if that still exists,
-- and for as long as that is kept.
local function restore_ext(root, id, ext)
  local name = ext and root .. "ext:" .. ext
  if not name or redis.call("GET", name) ~= id then
    return
  end
  local before = redis.call("HGET", root .. "task:" .. id, "namesake")
  if not before or redis.call("EXISTS", root .. "task:" .. before) == 0 then
    redis.call("DEL", name)
    return
  end
  redis.call("SET", name, before)
  local left = redis.call("PTTL", root .. "task:" .. before)
  if left >= 0 then
    redis.call("PEXPIRE", name, left)
  end
end

-- Deletes a task that was never committed: all its keys, and its id among the dependents of the
-- tasks outside its DAG.
function create.undo(root, id, row)
  if not row.state then
    return
  end
  indexes.leave(root, id, row.state)
  lanes.count(root, row.lane, "CREATED", -1)
  if row.state == "PENDING" then
    redis.call("HINCRBY", root .. "dag:" .. tasks.dag_of(row.flags), "waiting:" .. row.lane, -1)
  end
  restore_ext(root, id, row.more.ext)
  for _, tag in ipairs(row.more.tags or {}) do
    redis.call("ZREM", root .. "tag:" .. tag, id)
  end
  redis.call("ZREM", root .. "deadlines", id)
  redis.call("HDEL", root .. "cancelling", "children " .. id)
  redis.call("SREM", root .. "telling", id)
  redis.call("DEL", root .. "task:" .. id, root .. "def:" .. id, root .. "dependents:" .. id,
    root .. "heirs:" .. id, root .. "parents:" .. id)
end
