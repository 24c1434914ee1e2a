-- @include left_of
-- @include run_short
-- What a worker can pay for tasks now: { left, account } by the tighter of its own budget and the
-- day's; nil where neither bounds it. Overdrawn, it is handed out nothing at all.
local function purse_of(root, now, consumer)
  local purse
  for _, account in ipairs({ "worker=" .. consumer, "day" }) do
    local left = left_of(root, now, account)
    if left and (not purse or left < purse.left) then
      purse = { left = left, account = account }
    end
  end
  if purse and purse.left < 0 then
    run_short(root, now, purse.account)
  end
  return purse
end
