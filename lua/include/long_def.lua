-- The definition of a task of which def0 to def2 stand in `row` 4 to 6: more than two pieces of its
-- hash, or a key of its own.
local function long_def(root, id, row)
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
