#!/usr/bin/env bash
# A worker in ten lines: runs a command for each task of a type. The command reads the payload from
# stdin; its output is the result, or the error if it fails.
#   RQUEUE_REDIS_URL=redis://localhost:6379 RQUEUE_QUEUE=demo examples/bash_worker.sh shout tr a-z A-Z

type=$1 && shift
while true; do
  claim=$(rqueue claim --type "$type") || { [ $? -eq 1 ] && continue || exit; }
  read -r id RQUEUE_TOKEN <<<"$claim" && export RQUEUE_TOKEN
  (while sleep "${BEAT_SEC:-10}" && rqueue heartbeat "$id"; do :; done) >/dev/null & beat=$!
  if result=$(rqueue task "$id" --field payload | "$@" 2>&1)
  then rqueue complete "$id" --text "$result"
  else rqueue fail "$id" --message "$result"
  fi
  kill "$beat"
done
