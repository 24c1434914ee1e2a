-- @include price_of
-- @include run_short
-- Whether the next head of a lane can be paid: nil where it can, and its price is taken from the
-- purse; "next" where another may be cheaper; "skip" where a hundred were looked at in vain.
local function pay_from(root, now, purse, lane, id)
  local price = price_of(root, id)
  if price <= purse.left then
    purse.left = purse.left - price
    return nil
  end
  run_short(root, now, purse.account)
  lane.dear = (lane.dear or 0) + 1
  if lane.rules then
    -- The key whose turn it is gives nothing more in this call.
    table.remove(lane.line, 1)
  end
  return lane.dear < 100 and "next" or "skip"
end
