-- Whether readers other than this one hold entries of a stream.
local function others_hold(stream, group, reader)
  -- <count> <first> <last> [[reader, count], ...]
  for _, held in ipairs(redis.call("XPENDING", stream, group)[4] or {}) do
    if held[1] ~= reader then
      return true
    end
  end
  return false
end
