-- @include create_task
-- @include create_sole
-- @include link_task
-- @include count
-- @include enter_dag
-- Writes tasks of a DAG, and further parents of those that are `known`; counts all of them at
-- once. Their parents within the DAG bear the flag of those who are waited for already.
local function create_tasks(root, now, dag, news)
  local members, children, lanes, waiting, edges = {}, {}, {}, {}, 0
  local at = string.format("%.0f", now)
  for _, new in ipairs(news) do
    if not new.known then
      local short = #new.def > 64 and #new.def <= 192 and not new.more and new.below ~= ""
      if short and new.sole and new.place.kind.price == "" then
        create_sole(root, at, dag, new)
      else
        create_task(root, now, at, dag, new)
      end
      if new.place.key then
        redis.call("HSET", root .. "task:" .. new.id, "key", new.place.key)
      end
      local lane = new.place.kind.number
      members[#members + 1], lanes[lane] = new.id, (lanes[lane] or 0) + 1
      edges = edges + (new.outside and #new.outside or 0)
      if new.inside then
        waiting[lane] = (waiting[lane] or 0) + 1
      end
    end
    if new.above ~= "" then
      edges = edges + link_task(root, new, children)
    end
  end
  for parent, list in pairs(children) do
    redis.call("ZADD", root .. "dependents:" .. parent, unpack(list))
  end
  for lane, number in pairs(lanes) do
    count(root, lane, "CREATED", number)
  end
  enter_dag(root, dag, members, waiting, edges)
end
