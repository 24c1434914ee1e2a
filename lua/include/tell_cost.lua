-- @include send_to_outbox
-- Tells the archive what a `run` has said late of its cost: all of it, since nothing may be left
-- of the task when the archive looks. Its token and the number of its note, 0 by hand, are the
-- cost's name: a run tells one.
local function tell_cost(root, now, run, cost, archive)
  local told = cjson.encode({ at = string.format("%.0f", now), token = run.token,
    seq = run.seq ~= "" and run.seq or "0", owner = run.owner, model = run.model,
    micro_usd = cost[1], tokens_in = cost[2], tokens_out = cost[3] })
  send_to_outbox(root, archive, { run.id, run.life .. " COST " .. told })
end
