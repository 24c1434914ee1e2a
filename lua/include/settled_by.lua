-- Whether this very token ended its lease by this very move: a call that was sent again. Others
-- may hold the task since; the answer is the same until one of them settles it in turn.
local function settled_by(root, id, token, move)
  return redis.call("HGET", root .. "task:" .. id, "settled") == move .. " " .. token
end
