-- @include dag_shut
-- @include hold_task rarely
-- Makes a task READY that waits for nothing any more: a fresh entry of the stream. Its place in the
-- lane is added for many at once, see enter_indexes; it has none where its `flags` name a DAG of
-- which nothing is handed out. `sole`: it had one parent and no set.
local function free_task(root, id, lane, score, how, flags, sole)
  local entry = redis.call("XADD", root .. "ready", "*", "task", id)
  if sole then
    redis.call("HSET", root .. "task:" .. id, "state", "READY", "entry", entry, "sole", 0)
  else
    redis.call("HSET", root .. "task:" .. id, "state", "READY", "entry", entry)
  end
  local dag = flags and dag_shut(root, flags, how)
  if dag then
    return hold_task(root, dag, id, lane)
  end
  local scores = how.scores[lane] or {}
  scores[#scores + 1], scores[#scores + 2] = score, id
  how.scores[lane], how.touched[lane] = scores, true
end
