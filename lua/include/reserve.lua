-- Sets sums aside, by the name of the account's key: for tasks that were just handed out.
local function reserve(root, sums)
  for name, sum in pairs(sums) do
    redis.call("HINCRBY", root .. name, "reserved", string.format("%.0f", sum))
  end
end
