-- @include flagged
-- @include cancel_later
-- A task that waits for others which it spawned is given up: so are they, by the next call of
-- `cancel`.
local function cancel_awaited(root, id, row)
  local key, list = root .. "task:" .. id, {}
  if row.state ~= "PENDING" or not flagged(row.flags, "s")
    or redis.call("HDEL", key, "suspended") == 0 then
    return
  end
  for _, child in ipairs(redis.call("SMEMBERS", root .. "waits:" .. id)) do
    if child ~= "@time" then
      list[#list + 1] = { child, "Parent task_" .. id .. " cancelled", "cascade" }
    end
  end
  cancel_later(root, list)
end
