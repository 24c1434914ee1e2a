-- @include holder_of
-- Notes when a RUNNING task began that was handed out ahead of a free slot.
local function stamp_start(root, now, id)
  local claimed, started, owner = holder_of(redis.call("HGET", root .. "task:" .. id, "holder"))
  if started == "0" then
    redis.call("HSET", root .. "task:" .. id, "holder", claimed .. " " .. now .. " " .. owner)
  end
end
