-- Lets what is kept of a DAG that has ended expire after `ttl` ms; its tasks have their own keys.
local function forget_dag(root, dag, ttl)
  for _, name in ipairs({ "dag:", "members:", "follow:" }) do
    redis.call("PEXPIRE", root .. name .. dag, ttl)
  end
end
