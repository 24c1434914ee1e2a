-- Where a task of a submit goes: the kind of its line, and its score as text; for one of a DAG also
-- the part of its base that is for the critical path. Writing a number as text is slow; tasks of
-- one call, lane and priority share it.
local function place_of(kinds, word)
  local line, base, rank = string.match(word, "^(%d+) (%S+) ?(.*)$")
  local kind = kinds[tonumber(line)]
  return { kind = kind, score = string.format("%.0f", base + kind.age), rank = rank }
end
