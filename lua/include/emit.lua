-- Appends one event to the capped stream of what happened; whom it is about stands under the first
-- word of its name. What some sink wants to be told is a notice as well, and stays until it was.
local function emit(root, cap, name, subject, detail)
  local kind = string.match(name, "^%a+")
  local id = redis.call("XADD", root .. "events", "MAXLEN", "~", cap, "*",
    "event", name, kind, subject, "detail", detail)
  if redis.call("SISMEMBER", root .. "noticed", name) == 1 then
    redis.call("XADD", root .. "notices", "*",
      "event", name, kind, subject, "detail", detail, "id", id)
  end
end
