-- @include dag_of
-- @include dag_left
-- @include flagged
-- @include price_of rarely
-- Whether the DAG that the `flags` of a task name can pay it, after those before it in this call.
-- `seen` remembers what is left; `free` are flags of which there is nothing to ask.
local function dag_pays(root, id, flags, seen, free)
  local dag = dag_of(flags)
  local left = dag and seen["$" .. dag]
  if dag and left == nil then
    left = dag_left(root, dag) or false
    seen["$" .. dag] = left
  end
  if not left then
    free[flags] = true
    return true
  end
  local price = flagged(flags, "c") and price_of(root, id) or 0
  if price > left then
    return false
  end
  seen["$" .. dag] = left - price
  return true
end
