-- @include waits_of
-- Notes in the hash of a PENDING task which parents it waits for: it dies, and if it lives again it
-- must wait for them again. Tasks that it spawned are not among them: its code asks for them again.
local function keep_parents(root, id)
  local key = root .. "task:" .. id
  -- One that was revived and has not found all its parents yet still has the note of them.
  if redis.call("HDEL", key, "suspended") == 1 or redis.call("HEXISTS", key, "parents") == 1 then
    return
  end
  redis.call("SREM", root .. "waits:" .. id, "@time")
  local parents = waits_of(root, id)
  if #parents > 0 then
    table.sort(parents)
    redis.call("HSET", key, "parents", table.concat(parents, " "))
  end
end
