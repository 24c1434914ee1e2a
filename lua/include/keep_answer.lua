-- Keeps for so long what a call by hand is answered, and returns it: sent again it is told the same
-- and changes nothing, whatever came between.
local function keep_answer(root, request, memo_ms, reply)
  redis.call("SET", root .. "req:" .. request, cjson.encode(reply), "PX", memo_ms)
  return reply
end
