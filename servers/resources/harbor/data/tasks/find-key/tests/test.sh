#!/bin/bash
# Nothing but bash and coreutils is needed here.
cd "$(dirname "$0")"
reward=0
if [ "$(cat /app/found.txt)" = scripts/old/cron.sh ] &&
  [ "$(cd /app/site && find . -type f -exec sha256sum {} + | sort -k 2)" = "$(cat expected.txt)" ]; then
  reward=1
fi
echo $reward > /logs/verifier/reward.txt
