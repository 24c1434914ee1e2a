-- edit: no move
--
-- Changes the definition of a task that nobody has claimed yet. Its lane stays the same.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 was         the definition that the editor saw
--       4 def         the new one
-- TOUCHES task:<id> def:<id>
-- FLAGS allow-oom
-- REPLY OK | GONE | STATE <found> | CHANGED

-- @include is_waiting
-- @include is_visible
-- @include fields_of
-- @include def_of
-- @include write_def

local root, task, was, def = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local row = redis.call("HMGET", root .. "task:" .. task, "state", "flags")
local state = row[1]
if not state or not is_visible(root, { state = state, flags = row[2] }) then
  return { "GONE" }
elseif not is_waiting(state) then
  return { "STATE", state }
end
local found = def_of(root, task, fields_of(root .. "task:" .. task))
if found == def then
  return { "OK" }
elseif found ~= was then
  return { "CHANGED" }
end
write_def(root, task, def)
return { "OK" }
