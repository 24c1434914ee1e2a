-- Who ran a task under a token that it has lost, if it has not said since what that run cost: it
-- says so now, in its note `seq`, or "" by hand, and not again. One from before that is sent again
-- says nothing.
-- And the life that the run was of, where that is one before this, see close_costs.
local function settle_debt(root, id, token, seq)
  local key, owner, past, lines = root .. "task:" .. id, nil, nil, {}
  for line in string.gmatch(redis.call("HGET", key, "owed") or "", "[^\n]+") do
    local of, last, life, name = string.match(line, "^(%S+) (%d+)%*?(%d*) (.*)$")
    if of == token and (seq == "" or tonumber(seq) > tonumber(last)) then
      owner, past = name, life ~= "" and life or nil
    else
      lines[#lines + 1] = line
    end
  end
  if owner and #lines > 0 then
    redis.call("HSET", key, "owed", table.concat(lines, "\n"))
  elseif owner then
    redis.call("HDEL", key, "owed")
  end
  return owner, past
end
