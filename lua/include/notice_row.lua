-- A notice as a notifier is handed it, { notice, tries, name, value, ... }; nil where it is gone
-- from the stream.
local function notice_row(root, notice, tries)
  local entry = redis.call("XRANGE", root .. "notices", notice, notice)[1]
  local row = entry and { notice, tries }
  for _, word in ipairs(entry and entry[2] or {}) do
    row[#row + 1] = word
  end
  return row
end
