-- @include spend rarely
-- Adds what a run says it has cost, { micro-USD, tokens in, tokens out } as text, to its task and
-- to the accounts that pay it; see spend for `late`.
local function note_cost(root, now, id, flags, owner, cost, late)
  for i, name in ipairs({ "micro_usd", "tokens_in", "tokens_out" }) do
    if cost[i] ~= "0" then
      redis.call("HINCRBY", root .. "notes:" .. id, name, cost[i])
    end
  end
  if cost[1] ~= "0" then
    spend(root, now, id, flags, owner, tonumber(cost[1]), late)
  end
end
