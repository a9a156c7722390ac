#!/bin/sh
# start.sh PORT [ADDRESS]: Redis without a file, with the password of REDIS_PASSWORD, or of the file REDIS_PASSWORD_FILE.
# Settings come by standard input: a password on a command line is one that everybody on the machine can read.
set -eu
password=${REDIS_PASSWORD:-}
if [ -n "${REDIS_PASSWORD_FILE:-}" ]; then password=$(cat "$REDIS_PASSWORD_FILE"); fi
requirepass=
if [ -n "$password" ]; then
  requirepass="requirepass \"$(printf %s "$password" | sed 's/["\\]/\\&/g')\""
fi
exec redis-server - <<EOF
port $1
bind ${2:-127.0.0.1}
protected-mode no
save ""
appendonly no
maxmemory 256mb
maxmemory-policy noeviction
$requirepass
EOF
