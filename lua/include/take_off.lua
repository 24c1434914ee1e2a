-- Takes a name, or a list of names, off a set.
local function take_off(set, names)
  if type(names) == "table" then
    redis.call("SREM", set, unpack(names))
  else
    redis.call("SREM", set, names)
  end
end
