-- Whether this very token ended its lease by this very move: a call that was sent again.
-- A completion writes no `settled`: what stands there then is from an earlier lease.
local function settled_by(root, id, row, token, move)
  return row[2] == token and row[1] ~= "COMPLETED"
    and redis.call("HGET", root .. "task:" .. id, "settled") == move
end
