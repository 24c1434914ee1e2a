-- Writes a task of a DAG that waits for one other of it, has nothing special and a definition of
-- two pieces, as most do: written out, a list built for each would cost more. See create_task.
local function create_sole(root, at, dag, new)
  local place, def = new.place, new.def
  redis.call("HSET", root .. "task:" .. new.id, "state", "PENDING", "lane", place.kind.number,
    "score", place.score, "created", at, "flags", new.flags .. dag, "rank", place.rank,
    "sole", 1, "up0", new.above, "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65))
end
