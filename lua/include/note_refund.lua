-- @include holder_of
-- @include dag_of
-- Adds to the `refunds` of a call, by key of an account, what was set aside for a task that leaves
-- the hand and is not spent. `row` is flags, reserved, holder.
local function note_refund(root, row, refunds)
  local left, own = string.match(row[2] or "", "^(%d+)( ?w?)$")
  if not left or left == "0" then
    return false
  end
  local keys = { root .. "budget:day" }
  if own ~= "" then
    keys[2] = root .. "budget:worker=" .. (select(3, holder_of(row[3] or "")) or "nobody")
  end
  local dag = dag_of(row[1])
  if dag then
    keys[#keys + 1] = root .. "dag:" .. dag
  end
  for _, key in ipairs(keys) do
    refunds[key] = (refunds[key] or 0) + left
  end
  return true
end
