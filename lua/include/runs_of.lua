-- @include fields_of
-- Who is registered under a worker's name: run -> until when that holds. The value of each is
-- `<ms of its last sign of life> <ms> <facts>`.
local function runs_of(root, worker)
  local runs = {}
  for field, value in pairs((fields_of(root .. "worker:" .. worker))) do
    local run = string.match(field, "^run:(.+)$")
    if run then
      runs[run] = tonumber(string.match(value, "^%d+ (%d+)")) or 0
    end
  end
  return runs
end
