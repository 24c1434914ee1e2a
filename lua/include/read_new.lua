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
  local there = any_known and redis.call("HMGET", root .. "task:" .. id, "state", "flags") or {}
  local new = { id = id, place = ARGV[at + 1], def = ARGV[at + 2], flags = ARGV[at + 3],
    above = ARGV[at + 4], known = there[1] and true }
  if there[1] and dag_of(there[2]) ~= dag then
    return new, { "EXISTS", id, id }
  end
  if special == "" then
    new.inside = new.above ~= ""
    new.sole = #new.above == 26 and new.def ~= ""
    return new
  end
  local text, asked = string.match(special, "^([^\n]*)\n(.*)$")
  new.more, new.ask = decoded(text), decoded(asked)
  new.text = text ~= "" and text or nil
  new.inside = new.above ~= "" and asked == "" and not new.more.trigger and not new.more.ext
  new.sole = new.inside and #new.above == 26 and new.def ~= ""
  local lost
  new.outside, lost, new.fired = open_parents(root, new.ask.outside or {}, new.more.trigger,
    new.above ~= "")
  local ext = new.more.ext
  local namesake = ext and not new.known and (names[ext] or named_already(root, ext))
  if ext then
    names[ext] = id
  end
  if not new.outside then
    return new, { "PARENT", id, lost }
  end
  return new, namesake and { "EXISTS", id, namesake } or nil
end
