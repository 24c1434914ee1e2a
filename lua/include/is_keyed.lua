-- Whether a lane is one of tasks with a key: the number of such a lane begins with "-".
local function is_keyed(lane)
  return string.byte(lane) == 45
end
