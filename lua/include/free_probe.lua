-- @include types_of
-- Where a lease that ends is the one that tries the breaker of its type, who waits for that is to
-- be answered: the next one tries. If it has failed, the breaker is opened after this.
local function free_probe(root, id, token, lane)
  for _, type in ipairs(types_of(root, { lane })) do
    if redis.call("HGET", root .. "breaker:" .. type, "probe") == id .. " " .. token then
      redis.call("ZADD", root .. "wakes", 0, type)
    end
  end
end
