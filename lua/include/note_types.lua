-- Writes down the type of each lane, where one was made that is not noted yet.
local function note_types(root)
  -- `next` and `version` stand among the lanes.
  if redis.call("HLEN", root .. "types") >= redis.call("HLEN", root .. "lanes") - 2 then
    return
  end
  local all = redis.call("HGETALL", root .. "lanes")
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 1) == "{" then
      redis.call("HSET", root .. "types", all[at + 1], cjson.decode(all[at]).type)
    end
  end
end
