-- The server's time when an entry was put into the stream, in ms: it need not be asked for again.
local function entry_ms(entry)
  return tonumber(string.match(entry, "^%d+"))
end
