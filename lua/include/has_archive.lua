-- Whether the queue has an archive, asked once a call: the caller `said` "1", or somebody has
-- joined one to it. Who does not know of an archive must not end tasks behind its back.
local function has_archive(root, said)
  return said == "1" or redis.call("EXISTS", root .. "archiving") == 1
end
