-- Puts one line into a box. A box outlives its last mail by two minutes, longer than any wait.
local function put_mail(root, box, line)
  local key = root .. "mail:" .. box
  redis.call("RPUSH", key, line)
  redis.call("PEXPIRE", key, 120000)
end
