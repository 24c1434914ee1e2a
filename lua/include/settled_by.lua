-- Whether this very token ended its lease by this very move: a call that was sent again.
local function settled_by(root, id, row, token, move)
  return row[2] == token and redis.call("HGET", root .. "task:" .. id, "settled") == move
end
