-- @include add_field
-- Writes what was decided about a dead task into the stream of reviews: `said` by name, and
-- `resolution` where it says none. The newest `keep` of them stay, about; 0: all, for the archive.
local function add_review(root, now, id, life, said, resolution, keep)
  said.resolution = said.resolution or resolution
  local line = { "task", id, "life", life, "at", now }
  for _, name in ipairs({ "by", "resolution", "cause", "note", "not_before", "diff", "type",
    "reason", "error", "fingerprint" }) do
    add_field(line, name, said[name])
  end
  if keep > 0 then
    redis.call("XADD", root .. "reviews", "MAXLEN", "~", keep, "*", unpack(line))
  else
    redis.call("XADD", root .. "reviews", "*", unpack(line))
  end
end
