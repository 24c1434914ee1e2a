-- @include flag
-- Appends an attempt's record to the task's failures, the newest `keep` of them.
local function keep_failure(root, id, record, keep)
  redis.call("RPUSH", root .. "failures:" .. id, record)
  redis.call("LTRIM", root .. "failures:" .. id, -keep, -1)
  flag(root, id, "f")
end
