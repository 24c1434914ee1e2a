-- @include def_fields rarely
-- Writes a READY task that has its entry already, but for its place in the lane, which the
-- caller adds for many at once. `own` is its limit key, if it has one.
local function write_plain(root, id, key, entry, lane, score, def, own)
  if #def <= 64 and not own then
    redis.call("HSET", key, "state", "READY", "lane", lane, "entry", entry, "score", score,
      "def0", def)
  elseif #def <= 128 and not own then
    -- Written out: most tasks are of this size, and a list built for each would cost more.
    redis.call("HSET", key, "state", "READY", "lane", lane, "entry", entry, "score", score,
      "def0", string.sub(def, 1, 64), "def1", string.sub(def, 65))
  else
    local fields = { "state", "READY", "lane", lane, "entry", entry, "score", score }
    if own then
      fields[9], fields[10] = "key", own
    end
    if def_fields(fields, def) then
      redis.call("SET", root .. "def:" .. id, def)
    end
    redis.call("HSET", key, unpack(fields))
  end
end
