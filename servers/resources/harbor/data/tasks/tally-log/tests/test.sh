#!/bin/sh
# The reward is 1 when the whole report is right.
if python3 "$(dirname "$0")/check.py" /app/report.json; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
