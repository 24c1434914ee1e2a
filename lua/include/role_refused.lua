-- @include is_among
-- Who may not create tasks of those that ask for them: "<principal> <role>" of the first, nil
-- where all may. `who` is JSON { by, may }: pairs of a principal and the role it has where none is
-- kept, and the roles that may.
local function role_refused(root, who)
  local asked = cjson.decode(who)
  for _, pair in ipairs(asked.by) do
    local role = redis.call("HGET", root .. "roles", pair[1]) or pair[2]
    if not is_among(asked.may, role) then
      return pair[1] .. " " .. role
    end
  end
  return nil
end
