-- Bookkeeping of calls: stored replies, options, permissions, registered runs.

-- The stored reply to the call of this name, nil where there is none; see calls.remember.
function calls.remembered(root, request)
  local kept = redis.call("GET", root .. "req:" .. request)
  return kept and cjson.decode(kept) or nil
end

-- Stores the reply to a named call for `memo_ms` and returns it: the same call sent again gets the
-- same reply and changes nothing.
function calls.remember(root, request, memo_ms, reply)
  redis.call("SET", root .. "req:" .. request, cjson.encode(reply), "PX", memo_ms)
  return reply
end

-- Decodes the options of a call that ends tasks, JSON {archive, ttl, events, reviews}. `archive`
-- becomes whether the queue has an archive; with one, no review is trimmed before it is archived.
function calls.read_options(root, text)
  local how = cjson.decode(text)
  how.archive = calls.has_archive(root, how.archive)
  how.reviews = how.archive and 0 or how.reviews
  return how
end

-- Whether the queue has an archive: the caller is `configured` with one ("1"), or another client
-- has joined one. A client that is configured without it must not end tasks that the archive would
-- miss.
function calls.has_archive(root, configured)
  return configured == "1" or redis.call("EXISTS", root .. "archiving") == 1
end

-- The first principal that may not create tasks, as "<principal> <role>"; nil where all may. `who`
-- is JSON {by, may}: pairs of a principal and its role where none is stored, and the roles that
-- may.
function calls.role_refused(root, who)
  local check = cjson.decode(who)
  for _, pair in ipairs(check.by) do
    local role = redis.call("HGET", root .. "roles", pair[1]) or pair[2]
    if not values.contains(check.may, role) then
      return pair[1] .. " " .. role
    end
  end
  return nil
end

-- Why new tasks are refused now, as a word and a detail; nil where they are accepted, and then as
-- third result whether the queue has an archive. `who` is "" or the principals, see
-- calls.role_refused. `most` is how many ended tasks may wait for the archive, 0 for any number; ""
-- where the caller is configured without an archive: then the number that archive/join stored
-- counts.
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

-- Whether this token ended its lease by this move: the call is a repetition. Other workers may have
-- held the task since; the reply stays the same until one of them settles it.
function calls.settled_by(root, id, token, move)
  return redis.call("HGET", root .. "task:" .. id, "settled") == move .. " " .. token
end

-- The registered runs of a worker name: run -> until when its registration holds. The stored value
-- of a run is `<ms of its last heartbeat> <ms> <facts>`.
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
