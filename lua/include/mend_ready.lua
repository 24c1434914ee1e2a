-- @include mend_entry
-- @include dag_of
-- @include is_keyed
-- @include mend_key rarely
-- Puts a READY task back into its lane, unless it is held back with its DAG; one whose DAG is being
-- given up must have somebody to come to it. Whether anything was missing.
-- `row` is state, lane, score, entry, ..., flags.
local function mend_ready(root, now, id, row)
  local dag, mended = dag_of(row[8]), false
  if dag and redis.call("HEXISTS", root .. "dag:" .. dag, "closing") == 1 then
    mended = redis.call("HSETNX", root .. "unfinished", "cancel " .. dag, 0) == 1
  end
  if dag and (redis.call("SISMEMBER", root .. "held:" .. dag, id) == 1
    or redis.call("ZSCORE", root .. "unpaid:" .. dag, id)) then
    return mended
  end
  local missing = redis.call("ZADD", root .. "lane:" .. row[2], "NX", row[3], id) == 1
  if missing then
    mend_entry(root, now, id, row[4])
  end
  if is_keyed(row[2]) then
    missing = mend_key(root, id, row[2], row[3]) or missing
  end
  return missing or mended
end
