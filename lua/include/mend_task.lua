-- @include mend_ready
-- @include mend_created
-- @include mend_lease
-- @include is_keyed
-- @include mend_hand rarely
-- @include mend_wait
-- @include is_unborn
-- Puts a task back into every index that its state names; whether it was missing in any, nil where
-- there is no state. Between two scripts a task is always in them: only what a crash tore apart is
-- found here. Of a READY task in its lane the entry is not looked for, which would cost more than
-- all else: the claim that misses it names it in `orphans`.
local function mend_task(root, now, id, limit)
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "lane", "score", "entry",
    "holder", "due", "finished", "flags", "up0")
  local state = row[1]
  if not state then
    return nil
  elseif state == "READY" then
    return mend_ready(root, now, id, row)
  elseif state == "CLAIMED" or state == "RUNNING" or state == "VALIDATING" then
    local missing = is_keyed(row[2]) and mend_hand(root, id, row[2])
    return mend_lease(root, now, id, row[4], row[5]) or missing
  elseif is_unborn(root, state, row[8], row[9]) then
    return mend_created(root, now, id, row[8])
  elseif state == "PENDING" then
    return mend_wait(root, now, id, row, limit)
  elseif state == "RETRYING" then
    return redis.call("ZADD", root .. "delayed", "NX", row[6] or now, id) == 1
  elseif state == "DEAD_LETTERED" then
    return redis.call("ZADD", root .. "dead", "NX", row[7] or now, id) == 1
  end
  return false
end
