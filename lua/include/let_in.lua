-- @include refund rarely
-- @include is_keyed
-- @include leave_hands rarely
-- @include free_probe rarely
-- A task leaves the hand other than completed: what was set aside for it and not spent is given
-- back. Where somebody found a limit of those at once used up, or an account short, or it was this
-- that tried a breaker, who waits is answered at the end of the call, see answer_freed, or by the
-- promoter. A completion does that by itself, see heed_success and leave_hands.
local function let_in(root, id, lane)
  local key = root .. "task:" .. id
  local row = redis.call("HMGET", key, "flags", "reserved", "token")
  if row[2] then
    redis.call("HDEL", key, "reserved")
    for _, account in ipairs(refund(root, { [row[1] or ""] = { [row[2]] = 1 } })) do
      redis.call("ZADD", root .. "wakes", 0, "$" .. account)
    end
  end
  if is_keyed(lane) then
    leave_hands(root, { id })
  end
  if redis.call("EXISTS", root .. "crowded", root .. "breakers") > 0 then
    free_probe(root, id, row[3] or "", lane)
    for _, what in ipairs(redis.call("SMEMBERS", root .. "crowded")) do
      redis.call("ZADD", root .. "wakes", 0, what)
    end
    redis.call("DEL", root .. "crowded")
  end
end
