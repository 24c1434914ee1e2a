-- Makes the consumer group of a stream if it is not there; the entry that it was given last.
local function ensure_group(stream, group)
  for _, facts in ipairs(redis.call("XINFO", "GROUPS", stream)) do
    -- name <name> consumers <n> pending <n> last-delivered-id <entry>
    if facts[2] == group then
      return facts[8]
    end
  end
  redis.call("XGROUP", "CREATE", stream, group, "0")
  return "0-0"
end
