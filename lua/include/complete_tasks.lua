-- @include lease_held
-- @include completing
-- @include complete_task
-- @include free_entries
-- @include send_to_outbox
-- @include count_completed
-- @include heed_success rarely
-- @include answer_touched rarely
-- @include tell_graphs rarely
-- Completes the tasks whose rows { task, token, result } stand in ARGV from `first` on, by `how`
-- { archive, ttl, limit, tries, events }. Adds a word for each to the reply; returns whether more
-- who wait are to be told or answered.
local function complete_tasks(root, now, first, how, reply)
  local finished, all = string.format("%.0f", now), completing(root, how)
  for at = first, #ARGV, 3 do
    local id, token = ARGV[at], ARGV[at + 1]
    local held, row = lease_held(root, id, token)
    local word = "OK"
    if held and row[1] == "CLAIMED" then
      word = "STATE:CLAIMED"
    elseif held then
      complete_task(root, finished, id, row, ARGV[at + 2], all)
    elseif row[1] ~= "COMPLETED" or row[2] ~= token then
      word = "LOST"
    end
    reply[#reply + 1] = word
  end
  if #all.entries > 0 then
    free_entries(root, all.entries)
    send_to_outbox(root, how.archive, all.ended)
  end
  count_completed(root, all)
  if all.leases or next(all.refunds) then
    heed_success(root, all)
  end
  if all.dags or #all.order > 0 or #all.readied > 0 then
    tell_graphs(root, now, all)
  end
  return next(all.touched) and answer_touched(root, now, all.touched, how.tries) or all.unfinished
end
