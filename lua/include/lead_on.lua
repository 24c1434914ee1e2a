-- @include load_heads
-- @include may_pass
-- @include stand_in_line
-- Another task of a key is the first now, if it has any left and may go on: its lane may compete by
-- that, where it has rivals. See lead_of.
local function lead_on(root, lane, one)
  if lane.group.rivals and may_pass(one.gates)
    and (one.pos <= #one.heads or load_heads(root, lane, one)) then
    stand_in_line(lane.fresh, { at = tonumber(one.heads[one.pos + 1]), tie = one.heads[one.pos],
      gates = one.gates })
  end
end
