-- A lane gives no more in this call, the others of its group may: "next".
local function leave_group(lane)
  for i, one in ipairs(lane.group) do
    if one == lane then
      table.remove(lane.group, i)
    end
  end
  return "next"
end
