-- What a call collects that frees or blocks tasks, see enter_indexes; `left` is how many it may.
local function freeing(left)
  return { left = left, touched = {}, readied = {}, scores = {}, blocked = {}, unblocked = {},
    counts = {}, met = {}, order = {} }
end
