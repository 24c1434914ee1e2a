-- When a task may run, in ms, by its delay or its time; nil where that is not later than now.
local function due_of(ask, now)
  local due = ask.at or (ask.delay and now + ask.delay)
  return due and due > now and due or nil
end
