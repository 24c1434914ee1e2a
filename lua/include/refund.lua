-- @include refund_sums
-- Gives back what a call has collected in `refunds`, see refund_sums. Returns the accounts among
-- them that ran short: "day", "worker=<name>", or a DAG's ULID.
local function refund(root, refunds)
  local any, short = redis.call("EXISTS", root .. "short") == 1, {}
  for key, sum in pairs(refund_sums(root, refunds)) do
    local account = string.sub(key, #root + 1)
    local left = redis.call("HINCRBY", key, "reserved", string.format("%.0f", -sum))
    account = string.match(account, "^dag:(.+)$") or string.match(account, "^budget:(.+)$")
    local worker = string.find(account, "^worker=") ~= nil
    local row = worker and left <= 0 and redis.call("HMGET", key, "ceiling", "spent")
    if row and not row[1] and (row[2] or "0") == "0" then
      redis.call("DEL", key)
    end
    if any and redis.call("SISMEMBER", root .. "short", account) == 1 then
      short[#short + 1] = account
    end
  end
  return short
end
