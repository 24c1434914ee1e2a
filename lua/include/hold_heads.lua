-- @include dag_shut
-- @include dag_pays
-- @include hold_task
-- @include drop_from_lane
-- Takes out of the lanes in a list of { number, ... } what is held back with its DAG or cannot be
-- paid by it, of so many heads of them all.
local function hold_heads(root, lanes, heads)
  local page, how, seen, free = math.ceil(heads / #lanes), {}, {}, {}
  for _, lane in ipairs(lanes) do
    for _, id in ipairs(redis.call("ZRANGE", root .. "lane:" .. lane[1], 0, page - 1)) do
      local flags = redis.call("HGET", root .. "task:" .. id, "flags")
      local what = flags and dag_shut(root, flags, how)
      if flags and not what and not (free[flags] or dag_pays(root, id, flags, seen, free)) then
        what = "$" .. dag_of(flags)
      end
      if what then
        drop_from_lane(root, lane[1], id)
        hold_task(root, what, id, lane[1])
      end
    end
  end
end
