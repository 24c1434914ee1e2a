-- @include flagged
-- Lets the keys of an ended task expire after `ttl` ms, and takes it off its tags' lists. Its
-- dependents are not forgotten: their set goes when the last of them is told.
local function forget_later(root, id, ttl, flags, more)
  ttl = more.ttl or ttl
  redis.call("PEXPIRE", root .. "task:" .. id, ttl)
  redis.call("PEXPIRE", root .. "def:" .. id, ttl)
  redis.call("PEXPIRE", root .. "result:" .. id, ttl)
  if flagged(flags, "f") then
    redis.call("PEXPIRE", root .. "failures:" .. id, ttl)
  end
  if flagged(flags, "n") then
    redis.call("PEXPIRE", root .. "notes:" .. id, ttl)
    redis.call("PEXPIRE", root .. "logs:" .. id, ttl)
  end
  if flagged(flags, "p") then
    redis.call("PEXPIRE", root .. "parents:" .. id, ttl)
  end
  if flagged(flags, "s") then
    redis.call("PEXPIRE", root .. "spawned:" .. id, ttl)
  end
  if flagged(flags, "k") then
    redis.call("PEXPIRE", root .. "steps:" .. id, ttl)
  end
  for _, tag in ipairs(more.tags or {}) do
    redis.call("ZREM", root .. "tag:" .. tag, id)
  end
  if more.ext and redis.call("GET", root .. "ext:" .. more.ext) == id then
    redis.call("PEXPIRE", root .. "ext:" .. more.ext, ttl)
  end
end
