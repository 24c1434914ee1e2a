-- edit: no move
--
-- Changes the definition of a task that is not leased yet. Its lane stays the same.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
--       3 was         the definition that the caller has read
--       4 def         the new one
--       5 request     names this call: a repetition gets the same reply and changes nothing
--       6 memo_ms     how long that reply is kept
-- FLAGS allow-oom
-- REPLY OK | GONE | STATE <found> | CHANGED

local root, task, was, def = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local request, memo_ms = ARGV[5], ARGV[6]

local row = redis.call("HMGET", root .. "task:" .. task, "state", "flags")
local state, kept = row[1], calls.remembered(root, request)
if kept then
  return kept
elseif not state or not tasks.is_visible(root, { state = state, flags = row[2] }) then
  return { "GONE" }
elseif not tasks.is_waiting(state) then
  return { "STATE", state }
end
local found = definition.read(root, task, values.fields_of(root .. "task:" .. task))
if found ~= was and found ~= def then
  return { "CHANGED" }
elseif found ~= def then
  definition.write(root, task, def)
end
return calls.remember(root, request, memo_ms, { "OK" })
