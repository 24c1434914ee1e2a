-- @include left_of
-- What a worker can pay for tasks now: { left, account } by the tighter of its own budget and the
-- day's; nil where neither bounds it.
local function purse_of(root, now, consumer)
  local purse
  for _, account in ipairs({ "worker=" .. consumer, "day" }) do
    local left = left_of(root, now, account)
    if left and (not purse or left < purse.left) then
      purse = { left = left, account = account }
    end
  end
  return purse
end
