-- @include dag_of
-- @include decoded
-- @include open_parents rarely
-- @include named_already
-- A task of a DAG as it stands in ARGV from `at` on, and why it cannot be taken, if so: a parent
-- outside the DAG is not there, or another task bears its id or its producer's: one that is there,
-- or one before it, whose producer's ids are in `names`. One that waits `inside` can be freed by
-- tasks of its DAG alone, so not before its commit; `sole`: by one alone.
local function read_new(root, dag, at, any_known, names)
  local id, special = ARGV[at], ARGV[at + 5]
  local def, above = ARGV[at + 2], ARGV[at + 4]
  -- With all its fields at once: a table that grows is made anew.
  local new = { id = id, place = ARGV[at + 1], def = def, flags = ARGV[at + 3], above = above,
    below = ARGV[at + 6], inside = above ~= "", sole = #above == 26 and def ~= "" }
  if any_known then
    local there = redis.call("HMGET", root .. "task:" .. id, "state", "flags")
    new.known = there[1] and true
    if there[1] and dag_of(there[2]) ~= dag then
      return new, { "EXISTS", id, id }
    end
  end
  if special == "" then
    return new
  end
  local text, asked = string.match(special, "^([^\n]*)\n(.*)$")
  new.more, new.ask, new.text = decoded(text), decoded(asked), text ~= "" and text or nil
  local ext, trigger = new.more.ext, new.more.trigger
  new.inside = new.inside and asked == "" and not trigger and not ext
  new.sole = new.inside and new.sole
  local outside, lost, fired = open_parents(root, new.ask.outside or {}, trigger, above ~= "")
  new.outside, new.fired = outside, fired
  local namesake = ext and not new.known and (names[ext] or named_already(root, ext))
  if ext then
    names[ext] = id
  end
  if not new.outside then
    return new, { "PARENT", id, lost }
  end
  return new, namesake and { "EXISTS", id, namesake } or nil
end
