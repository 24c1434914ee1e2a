-- @include fields_of
-- @include tally_lane
-- The tasks of a DAG that wait inside are PENDING for everyone from now on.
local function show_waiting(key, how)
  for name, number in pairs(fields_of(key)) do
    local lane = string.match(name, "^waiting:(%-?%d+)$")
    if lane then
      tally_lane(how, lane, "CREATED", -number)
      tally_lane(how, lane, "PENDING", tonumber(number))
      redis.call("HDEL", key, name)
    end
  end
end
