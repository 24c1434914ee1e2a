-- @include create_task
-- @include link_task
-- @include count
-- Writes tasks of a DAG, and further parents of those that are `known`; counts all of them at
-- once. Their parents within the DAG bear the flag of those who are waited for already.
local function create_tasks(root, now, dag, news)
  local members, children, lanes, edges = {}, {}, {}, 0
  local at = string.format("%.0f", now)
  for _, new in ipairs(news) do
    if not new.known then
      create_task(root, now, at, dag, new)
      local lane = new.place.kind.number
      members[#members + 1], lanes[lane] = new.id, (lanes[lane] or 0) + 1
      edges = edges + (new.outside and #new.outside or 0)
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
  local key = root .. "dag:" .. dag
  redis.call("HINCRBY", key, "edges", edges)
  if #members > 0 then
    redis.call("RPUSH", root .. "members:" .. dag, unpack(members))
    redis.call("HINCRBY", key, "total", #members)
    redis.call("HINCRBY", key, "open", #members)
  end
end
