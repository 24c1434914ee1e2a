-- @include holder_of
-- @include put_mail
-- @include owe
-- Tells who holds a task that it is theirs no longer: a worker stops its code at once, and not
-- only when it next renews the lease. Each worker reads the box of its own name.
local function tell_holder(root, id, row)
  if row.state == "CLAIMED" or row.state == "RUNNING" or row.state == "VALIDATING" then
    local _, _, owner = holder_of(redis.call("HGET", root .. "task:" .. id, "holder") or "")
    if owner then
      if row.state ~= "CLAIMED" then
        owe(root, id, row.token)
      end
      put_mail(root, "@" .. owner, "fenced " .. id .. " " .. row.token)
    end
  end
end
