-- @include dag_of
-- What is to be given back, by the key of the account: `refunds` has by flags of tasks how often
-- which text was kept with them, see set_aside. What was overdrawn gives nothing back.
local function refund_sums(root, refunds)
  local sums = {}
  local function add(key, sum)
    sums[key] = (sums[key] or 0) + sum
  end
  for flags, texts in pairs(refunds) do
    local dag = dag_of(flags)
    for text, times in pairs(texts) do
      local left, worker = string.match(text, "^(%d+) ?(.*)$")
      local sum = tonumber(left or 0) * times
      if sum > 0 then
        add(root .. "budget:day", sum)
        if worker ~= "" then
          add(root .. "budget:worker=" .. worker, sum)
        end
        if dag then
          add(root .. "dag:" .. dag, sum)
        end
      end
    end
  end
  return sums
end
