-- @include waits_of
-- Notes in the hash of a PENDING task which parents it waits for: it dies, and if it lives again it
-- must wait for them again. Tasks that it spawned are not among them: its code asks for them again.
local function keep_parents(root, id)
  if redis.call("HDEL", root .. "task:" .. id, "suspended") == 1 then
    return
  end
  redis.call("SREM", root .. "waits:" .. id, "@time")
  local parents = waits_of(root, id)
  if #parents > 0 then
    table.sort(parents)
    redis.call("HSET", root .. "task:" .. id, "parents", table.concat(parents, " "))
  end
end
