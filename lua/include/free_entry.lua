-- Takes the task's entry out of the stream and out of whoever's pending list.
local function free_entry(root, entry)
  redis.call("XACK", root .. "ready", "workers", entry)
  redis.call("XDEL", root .. "ready", entry)
end
