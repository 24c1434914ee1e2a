-- What was taken for a sink and not delivered, as { notice, tries }: `mine`, under this taker's
-- name; `due`, to be tried again; and how many others are `kept` until their time.
local function open_notices(key, undelivered, now, taker)
  local open = { mine = {}, due = {}, kept = 0 }
  local page = redis.call("ZRANGE", undelivered, 0, -1, "WITHSCORES")
  for at = 1, #page, 2 do
    local notice, due = page[at], tonumber(page[at + 1])
    local tries, holder = string.match(redis.call("HGET", key, notice) or "0 ", "^(%d+) (.*)$")
    if holder == taker then
      open.mine[#open.mine + 1] = { notice, tonumber(tries) }
    elseif due <= now then
      open.due[#open.due + 1] = { notice, tonumber(tries) }
    else
      open.kept = open.kept + 1
    end
  end
  return open
end
