-- The next members of a DAG for a step that `unfinished` names, so many, and whether more follow;
-- nil where it is not named. How far it is by then is written at once. A commit has a list of its
-- own, which goes with it.
local function next_page(root, dag, step, limit)
  local unfinished, name = root .. "unfinished", step .. " " .. dag
  local at = tonumber(redis.call("HGET", unfinished, name))
  if not at then
    return nil, false
  end
  local list = root .. (step == "commit" and "fresh:" or "members:") .. dag
  local page = redis.call("LRANGE", list, at, at + limit - 1)
  local more = #page == limit
  if more then
    redis.call("HSET", unfinished, name, at + limit)
  else
    redis.call("HDEL", unfinished, name)
    if step == "commit" then
      redis.call("DEL", list)
    end
  end
  return page, more
end
