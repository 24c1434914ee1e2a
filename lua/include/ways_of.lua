-- @include has_archive
-- How a call ends tasks, from its JSON {archive, ttl, events, reviews}: `archive` is whether there
-- is one, whoever said so. Then no review is trimmed that the archive has not got yet.
local function ways_of(root, text)
  local how = cjson.decode(text)
  how.archive = has_archive(root, how.archive)
  how.reviews = how.archive and 0 or how.reviews
  return how
end
