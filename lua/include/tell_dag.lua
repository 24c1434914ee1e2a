-- @include put_mail
-- Mails everyone who waits for the end of a DAG.
local function tell_dag(root, dag)
  local watchers = root .. "watchers:dag_" .. dag
  for _, box in ipairs(redis.call("SMEMBERS", watchers)) do
    put_mail(root, box, "ended dag_" .. dag)
  end
  redis.call("DEL", watchers)
end
