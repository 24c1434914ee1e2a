-- @include fields_of
-- @include def_of
-- All that the archive needs of a task that may live again: its hash and definition, as JSON.
local function snapshot(root, id)
  local fields = fields_of(root .. "task:" .. id)
  return cjson.encode({ task = fields, def = def_of(root, id, fields),
    failures = redis.call("LRANGE", root .. "failures:" .. id, 0, -1),
    notes = fields_of(root .. "notes:" .. id),
    logs = redis.call("LRANGE", root .. "logs:" .. id, 0, -1),
    parents = redis.call("LRANGE", root .. "parents:" .. id, 0, -1),
    steps = redis.call("HKEYS", root .. "steps:" .. id) })
end
