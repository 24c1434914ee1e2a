-- @include dag_of
-- @include dag_gate rarely
-- @include dag_pays rarely
-- Which of the picks can be handed out: their ids, rows and entries; and by id what holds back the
-- others: the DAG that is paused or closing, "$<dag>" for one that cannot pay. Where some are
-- `priced`, the price is read, too.
local function sift_picks(root, picks, priced)
  local task, rows, entries, kept, held = root .. "task:", {}, {}, {}, {}
  local seen, free = {}, {}
  for _, id in ipairs(picks) do
    local row = priced and redis.call("HMGET", task .. id,
      "entry", "token", "flags", "def0", "def1", "def2", "created", "price")
      or redis.call("HMGET", task .. id,
        "entry", "token", "flags", "def0", "def1", "def2", "created")
    local flags = row[3]
    if flags and not (seen[flags] or dag_gate(root, flags, seen)) then
      held[id] = dag_of(flags)
    elseif flags and not (free[flags] or dag_pays(root, id, flags, seen, free)) then
      held[id] = "$" .. dag_of(flags)
    else
      local n = #kept + 1
      kept[n], rows[n], entries[n] = id, row, row[1] or "0-1"
    end
  end
  return kept, rows, entries, held
end
