-- @include decoded
-- @include open_parents
-- @include named_already
-- @include reaches
-- Reads what is special about a task to be spawned, and returns why it cannot be, if so: what it
-- waits for is not there, or waits in turn for the parent, which is to wait for it. One that is
-- there already (without `special`) may wait for the parent as long as that does not wait for it;
-- one that runs may be about to wait.
local function spawn_refused(root, new, ask)
  if not new.special then
    local ended = not new.state or new.state == "COMPLETED" or new.state == "CANCELLED"
      or new.state == "GONE"
    local circle = ask.wait ~= "" and not ended and reaches(root, { new.id }, ask.id, ask.walk)
    return circle and { circle, new.key } or nil
  end
  local text, asked = string.match(new.special, "^([^\n]*)\n(.*)$")
  new.more, new.ask = decoded(text), decoded(asked)
  new.text, new.flags = text ~= "" and text or nil, text ~= "" and "m" or ""
  local open, lost = open_parents(root, new.ask.outside or {}, new.more.trigger)
  local ext = new.more.ext
  local namesake = ext and (ask.names[ext] or named_already(root, ext))
  if not open then
    return { "PARENT", new.key, lost }
  elseif namesake then
    return { "EXISTS", new.key, namesake }
  end
  if ext then
    ask.names[ext] = new.id
  end
  new.outside = open
  local circle = ask.wait ~= "" and reaches(root, open, ask.id, ask.walk)
  return circle and { circle, new.key } or nil
end
