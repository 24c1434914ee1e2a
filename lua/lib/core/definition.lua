-- A task's immutable definition: a short one is in its hash, a long one in a key of its own.

-- The definition of a task, from the fields of its hash or from its own key.
function definition.read(root, id, fields)
  if not fields.def0 then
    return redis.call("GET", root .. "def:" .. id) or ""
  elseif not fields.def2 then
    return fields.def0 .. (fields.def1 or "")
  end
  return table.concat({ fields.def0, fields.def1, fields.def2, fields.def3 or "",
    fields.def4 or "", fields.def5 or "", fields.def6 or "", fields.def7 or "" })
end

-- Adds a definition to a flat list of hash fields, in pieces of 64 bytes, so that the hash stays a
-- listpack and a small task is one key. Returns true for a longer one, which the caller stores in
-- its own key.
function definition.add_fields(list, def)
  local size = #def
  if size > 512 then
    return true
  end
  -- The names are def0, def1 ...: string.char is faster than formatting a number.
  local n, at = #list, 48
  for from = 1, size, 64 do
    list[n + 1] = "def" .. string.char(at)
    list[n + 2] = string.sub(def, from, from + 63)
    n, at = n + 2, at + 1
  end
  return false
end

-- The definition of a task that has more than two pieces in its hash, or a key of its own. `row`
-- has def0 to def2 at 4 to 6.
function definition.read_long(root, id, row)
  if not row[4] then
    return redis.call("GET", root .. "def:" .. id) or ""
  end
  -- A piece that is not full is the last.
  if #row[6] < 64 then
    return row[4] .. row[5] .. row[6]
  end
  local rest = redis.call("HMGET", root .. "task:" .. id, "def3", "def4", "def5", "def6", "def7")
  return table.concat({ row[4], row[5], row[6], rest[1] or "", rest[2] or "", rest[3] or "",
    rest[4] or "", rest[5] or "" })
end

-- Replaces the definition of a task.
function definition.write(root, id, def)
  local key = root .. "task:" .. id
  redis.call("DEL", root .. "def:" .. id)
  redis.call("HDEL", key, "def0", "def1", "def2", "def3", "def4", "def5", "def6", "def7")
  local list = {}
  if definition.add_fields(list, def) then
    redis.call("SET", root .. "def:" .. id, def)
  else
    redis.call("HSET", key, unpack(list))
  end
end
