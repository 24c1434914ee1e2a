-- Who ran a task under a token that it has lost, if it has not said since what that run cost: it
-- says so now, in its note `seq`, and not again. One from before that is sent again says nothing.
local function settle_debt(root, id, token, seq)
  local key, owner, lines = root .. "task:" .. id, nil, {}
  for line in string.gmatch(redis.call("HGET", key, "owed") or "", "[^\n]+") do
    local of, last, name = string.match(line, "^(%S+) (%d+) (.*)$")
    if of == token and tonumber(seq) > tonumber(last) then
      owner = name
    else
      lines[#lines + 1] = line
    end
  end
  if owner and #lines > 0 then
    redis.call("HSET", key, "owed", table.concat(lines, "\n"))
  elseif owner then
    redis.call("HDEL", key, "owed")
  end
  return owner
end
