-- @include run_short
-- Whether anything of a lane can be paid from a purse: of cost class k is what costs at least
-- 2^(k-1) and less than 2^k micro-USD, nothing for none; overdrawn, nothing at all can. Where `n`
-- of them might be more than is left, the purse is `tight`: each price is looked at then.
local function can_afford(root, now, purse, lane, n)
  local class = lane[7]
  if purse.left < (class and 2 ^ (class - 1) or 0) then
    -- An empty lane keeps nobody.
    if redis.call("EXISTS", root .. "lane:" .. lane[1]) == 1 then
      run_short(root, now, purse)
    end
    return false
  end
  purse.tight = purse.tight or (class and n * 2 ^ class > purse.left)
  return true
end
