-- Appends one event to the capped stream of what happened.
local function emit(root, cap, name, id, detail)
  redis.call("XADD", root .. "events", "MAXLEN", "~", cap, "*",
    "event", name, "task", id, "detail", detail)
end
