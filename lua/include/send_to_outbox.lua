-- One outbox entry for all tasks that ended in this call: id -> "<life> <state> [snapshot]".
-- `ended` is that flat list; without an archive nothing is written.
local function send_to_outbox(root, archive, ended)
  if archive ~= "1" or #ended == 0 then
    return
  end
  redis.call("XADD", root .. "outbox", "*", unpack(ended))
  redis.call("HINCRBY", root .. "stats", "outbox", #ended / 2)
end
