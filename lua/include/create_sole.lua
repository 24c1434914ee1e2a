-- Writes a task of a DAG that waits for one other of it, has nothing special and a definition of
-- up to three pieces, as most do: written out, a list for each would cost more. See create_task.
local function create_sole(root, at, dag, new)
  local key, place, def, flags = root .. "task:" .. new.id, new.place, new.def, new.flags .. dag
  if #def <= 128 then
    redis.call("HSET", key, "state", "PENDING", "lane", place.kind.number, "score", place.score,
      "created", at, "flags", flags, "rank", place.rank, "sole", 1, "up0", new.above,
      "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65), "down", new.below)
  else
    redis.call("HSET", key, "state", "PENDING", "lane", place.kind.number, "score", place.score,
      "created", at, "flags", flags, "rank", place.rank, "sole", 1, "up0", new.above,
      "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65, 128),
      "def2", string.sub(def, 129), "down", new.below)
  end
end
