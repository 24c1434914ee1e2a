-- What the call by hand of this name was answered, if it was heard before; see keep_answer.
local function answered(root, request)
  local kept = redis.call("GET", root .. "req:" .. request)
  return kept and cjson.decode(kept) or nil
end
