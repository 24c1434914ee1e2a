-- @include place_of
-- @include create_tasks
-- @include commit_task
-- @include flag
-- Writes the new tasks of a spawn into a DAG that runs already, and how their parent knows them.
local function spawn_tasks(root, now, dag, ask, kinds, how)
  local fresh, places, spawned = {}, {}, root .. "spawned:" .. ask.id
  for _, new in ipairs(ask.rows) do
    if new.special then
      local place = places[new.place] or place_of(kinds, new.place)
      places[new.place], new.place, new.above = place, place, ""
      fresh[#fresh + 1] = new
      redis.call("HSET", spawned, new.key, new.id)
    end
  end
  if #fresh == 0 then
    return
  end
  create_tasks(root, now, dag, fresh)
  for _, new in ipairs(fresh) do
    commit_task(root, now, new.id, how)
  end
  flag(root, ask.id, "s")
  redis.call("HINCRBY", root .. "stats", "submitted", #fresh)
  redis.call("HINCRBY", root .. "unfinished", "rank " .. dag, 1)
end
