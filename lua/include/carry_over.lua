-- @include holder_row
-- @include lease_held
-- @include handoff
-- @include start_task
-- The tasks of a line "id token ..." that were mailed and are still held, as rows of the claim
-- that takes them over: their hand-off is done. With `start` they are RUNNING from now on.
local function carry_over(root, now, line, start)
  local carried = {}
  for id, token in string.gmatch(line, "(%S+) (%S+)") do
    local held, row = lease_held(root, id, token)
    if held then
      redis.call("ZREM", root .. "handoffs", handoff(id, token))
      if start and row[1] == "CLAIMED" then
        start_task(root, string.format("%.0f", now), id, token, row)
      end
      carried[#carried + 1] = holder_row(root, id, token, row[4])
    end
  end
  return carried
end
