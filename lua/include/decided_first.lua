-- What a decision about a dead task is answered that comes too late: "DECIDED" where another has
-- been made about the life that its reviewer saw, "STATE" where that life is not dead; nil where
-- it may be carried out. `life` is nil where nobody could see it.
local function decided_first(root, id, row, life)
  local lives = tonumber(row.more.life) or 1
  if row.state == "DEAD_LETTERED" and (not life or lives == life) then
    return nil
  elseif life and (lives > life or (lives == life and row.state == "CANCELLED"
    and redis.call("HGET", root .. "task:" .. id, "settled") == "discard")) then
    return "DECIDED"
  end
  return "STATE"
end
