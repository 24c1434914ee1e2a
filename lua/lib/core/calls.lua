-- What a call may do and what it was answered: memos, refusals, options, registered runs.

-- What the call by hand of this name was answered, if it was heard before; see keep_answer.
function calls.remembered(root, request)
  local kept = redis.call("GET", root .. "req:" .. request)
  return kept and cjson.decode(kept) or nil
end

-- Keeps for so long what a call by hand is answered, and returns it: sent again it is told the same
-- and changes nothing, whatever came between.
function calls.remember(root, request, memo_ms, reply)
  redis.call("SET", root .. "req:" .. request, cjson.encode(reply), "PX", memo_ms)
  return reply
end

-- How a call ends tasks, from its JSON {archive, ttl, events, reviews}: `archive` is whether there
-- is one, whoever said so. Then no review is trimmed that the archive has not got yet.
function calls.read_options(root, text)
  local how = cjson.decode(text)
  how.archive = calls.has_archive(root, how.archive)
  how.reviews = how.archive and 0 or how.reviews
  return how
end

-- Whether the queue has an archive, asked once a call: the caller `said` "1", or somebody has
-- joined one to it. Who does not know of an archive must not end tasks behind its back.
function calls.has_archive(root, said)
  return said == "1" or redis.call("EXISTS", root .. "archiving") == 1
end

-- Who may not create tasks of those that ask for them: "<principal> <role>" of the first, nil
-- where all may. `who` is JSON { by, may }: pairs of a principal and the role it has where none is
-- kept, and the roles that may.
function calls.role_refused(root, who)
  local asked = cjson.decode(who)
  for _, pair in ipairs(asked.by) do
    local role = redis.call("HGET", root .. "roles", pair[1]) or pair[2]
    if not values.contains(asked.may, role) then
      return pair[1] .. " " .. role
    end
  end
  return nil
end

-- Why nothing new is taken now, as a word and its detail; nil where it is, and then whether the
-- queue has an archive. `who` is "" or who asks, see role_refused; `most` is how many ended tasks
-- may wait for the archive, 0 for any number; "" where the caller knows of none: then it is as
-- many as who has joined one says.
function calls.refusal(root, who, most)
  local forbidden = who ~= "" and calls.role_refused(root, who)
  local limit = most ~= "" and most or redis.call("GET", root .. "archiving")
  local waiting = limit and limit ~= "0" and redis.call("HGET", root .. "stats", "outbox")
  if forbidden then
    return "FORBIDDEN", forbidden
  elseif waiting and tonumber(waiting) >= tonumber(limit) then
    return "FULL", waiting
  end
  return nil, nil, limit and true
end

-- Whether this very token ended its lease by this very move: a call that was sent again. Others
-- may hold the task since; the answer is the same until one of them settles it in turn.
function calls.settled_by(root, id, token, move)
  return redis.call("HGET", root .. "task:" .. id, "settled") == move .. " " .. token
end

-- Who is registered under a worker's name: run -> until when that holds. The value of each is
-- `<ms of its last sign of life> <ms> <facts>`.
function calls.registered_runs(root, worker)
  local runs = {}
  for field, value in pairs((values.fields_of(root .. "worker:" .. worker))) do
    local run = string.match(field, "^run:(.+)$")
    if run then
      runs[run] = tonumber(string.match(value, "^%d+ (%d+)")) or 0
    end
  end
  return runs
end
