-- @include fields_of
-- A waiter's record: seq, bits, consumer, given, mailed, n, until, profile, box, handoff, start,
-- begin.
local function waiter_of(root, waiter)
  return fields_of(root .. "waiter:" .. waiter)
end
