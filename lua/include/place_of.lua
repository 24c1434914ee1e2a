-- Where a task of a submit goes: the kind of its line, its key if it has one, and its score as
-- text; for one of a DAG also the part of its base that is for the critical path. Writing a number
-- as text is slow; tasks of one call, lane, key and priority share it.
local function place_of(kinds, word)
  local line, key, base, rank = string.match(word, "^(%d+)(%S*) (%S+) ?(.*)$")
  local kind = kinds[tonumber(line)]
  return { kind = kind, score = string.format("%.0f", base + kind.age), rank = rank,
    key = key ~= "" and string.sub(key, 2) or nil }
end
