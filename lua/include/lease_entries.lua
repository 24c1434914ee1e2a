-- Puts the entries into the consumer's pending list without reading in order, idle time 0.
-- Returns nil when all were there to take, else the set of those that were.
-- The group is made on the first claim. What is no name of an entry does not keep the others.
local function lease_entries(root, consumer, entries)
  local ready = root .. "ready"
  local call = { "XCLAIM", ready, "workers", consumer, 0 }
  for i, entry in ipairs(entries) do
    call[i + 5] = entry
  end
  call[#call + 1] = "FORCE"
  call[#call + 1] = "JUSTID"
  local taken = redis.pcall(unpack(call))
  -- The quick layer's server gives an error that is no text.
  local fault = taken.err and tostring(taken.err)
  if fault and string.find(fault, "NOGROUP", 1, true) then
    redis.call("XGROUP", "CREATE", ready, "workers", "0", "MKSTREAM")
    return lease_entries(root, consumer, entries)
  elseif fault and string.find(fault, "^ERR") then
    taken = {}
    for _, entry in ipairs(entries) do
      local one = redis.pcall("XCLAIM", ready, "workers", consumer, 0, entry, "FORCE", "JUSTID")
      taken[#taken + 1] = one[1]
    end
  elseif fault then
    error(fault)
  end
  if #taken == #entries then
    return nil
  end
  local set = {}
  for _, entry in ipairs(taken) do
    set[entry] = true
  end
  return set
end
