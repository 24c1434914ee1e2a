-- One outbox entry for all tasks that ended in this call: id -> "<life> <state> [snapshot]", or for
-- a cost that was told late: id -> "<life> COST <facts>".
-- `ended` is that flat list; without an archive nothing is written, see has_archive.
local function send_to_outbox(root, archive, ended)
  if not archive or #ended == 0 then
    return
  end
  redis.call("XADD", root .. "outbox", "*", unpack(ended))
  redis.call("HINCRBY", root .. "stats", "outbox", #ended / 2)
end
