-- @include run_short
-- Whether anything of a cost class can be paid from a purse: of class k is what costs at least
-- 2^(k-1) and less than 2^k micro-USD, nothing for none. Where `n` of them might be more than is
-- left, the purse is `tight`: each price is looked at then.
local function can_afford(root, now, purse, class, n)
  if purse.left < 0 then
    return false
  elseif not class then
    return true
  elseif purse.left < 2 ^ (class - 1) then
    run_short(root, now, purse.account)
    return false
  end
  purse.tight = purse.tight or n * 2 ^ class > purse.left
  return true
end
