-- @include dag_shut
-- @include dag_of
-- @include dag_left
-- @include flagged
-- @include price_of rarely
-- @include hold_task
-- @include drop_from_lane
-- Takes out of the lanes in a list of { number, ... } what is held back with its DAG or is dearer
-- than what that has left, of so many heads of them all. Nothing is set aside here: what stays may
-- be handed out or not, and must not keep another from it.
local function hold_heads(root, lanes, heads)
  local page, how, left = math.ceil(heads / #lanes), {}, {}
  for _, lane in ipairs(lanes) do
    for _, id in ipairs(redis.call("ZRANGE", root .. "lane:" .. lane[1], 0, page - 1)) do
      local flags = redis.call("HGET", root .. "task:" .. id, "flags")
      local what, dag = flags and dag_shut(root, flags, how), dag_of(flags)
      if dag and left[dag] == nil then
        left[dag] = dag_left(root, dag) or false
      end
      if dag and not what and left[dag] then
        local price = flagged(flags, "c") and price_of(root, id) or 0
        what = price > left[dag] and "$" .. dag
      end
      if what then
        drop_from_lane(root, lane[1], id)
        hold_task(root, what, id, lane[1])
      end
    end
  end
end
