-- @include flag
-- @include flagged
-- @include holder_of
-- Appends an attempt's record to the task's failures, the newest `keep` of them. How long it took
-- is added, what it cost and for which model: what its task has said since the record before.
local function keep_failure(root, now, id, flags, record, keep)
  local claimed, started = holder_of(redis.call("HGET", root .. "task:" .. id, "holder") or "")
  local since = tonumber(started ~= "0" and started or claimed) or now
  local more = string.format(',"duration_sec":%.3f', math.max(0, now - since) / 1000)
  if flagged(flags, "n") then
    local notes, said = root .. "notes:" .. id, {}
    for i, value in ipairs(redis.call("HMGET", notes, "micro_usd", "tokens_in", "tokens_out",
      "recorded_usd", "recorded_tokens")) do
      said[i] = tonumber(value or 0) or 0
    end
    local tokens = said[2] + said[3]
    more = more .. string.format(',"cost_usd":%.6f,"tokens":%.0f', (said[1] - said[4]) / 1000000,
      tokens - said[5])
    redis.call("HSET", notes, "recorded_usd", said[1], "recorded_tokens", tokens)
    local model = redis.call("HGET", notes, "model")
    if model then
      -- What was paid stands over what the worker meant to use. The next attempt has its own.
      record = string.gsub(record, ',"model":"[^"]*"', "")
      more = more .. ',"model":' .. cjson.encode(model)
      redis.call("HDEL", notes, "model")
    end
  end
  redis.call("RPUSH", root .. "failures:" .. id, string.sub(record, 1, -2) .. more .. "}")
  redis.call("LTRIM", root .. "failures:" .. id, -keep, -1)
  flag(root, id, "f")
end
