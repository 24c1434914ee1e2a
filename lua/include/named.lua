-- The claims in `rows` as one line, "id token id token ...".
local function named(rows)
  local words = {}
  for _, row in ipairs(rows) do
    words[#words + 1] = row[1]
    words[#words + 1] = row[2]
  end
  return table.concat(words, " ")
end
