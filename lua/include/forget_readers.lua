-- Forgets the readers of a stream that hold nothing and have been silent for so long; not the one
-- that asks.
local function forget_readers(stream, group, reader, idle_ms)
  for _, facts in ipairs(redis.call("XINFO", "CONSUMERS", stream, group)) do
    -- name <name> pending <n> idle <ms>
    if facts[2] ~= reader and facts[4] == 0 and facts[6] >= tonumber(idle_ms) then
      redis.call("XGROUP", "DELCONSUMER", stream, group, facts[2])
    end
  end
end
