#!/bin/sh
# start.sh PORT [FOLDER MODULE]: an environment, by default the lock's, on packages that uv installs once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$HOME/.cache/compose-gym/services/openenv-0.10.0-$(cksum <"$here/requirements.txt" | cut -d' ' -f1)
if [ ! -d "$venv" ]; then
  uv=${UV:-uv} half=$venv.$$
  "$uv" venv --quiet --python '>=3.10' "$half"
  "$uv" pip install --quiet --python "$half/bin/python" -r "$here/requirements.txt"
  "$uv" pip install --quiet --python "$half/bin/python" --no-deps openenv==0.10.0
  # In one step, and by one of those that make it at the same time.
  "$half/bin/python" -c 'import os, sys; os.rename(*sys.argv[1:])' "$half" "$venv" 2>/dev/null || rm -rf "$half"
fi
exec "$venv/bin/python" -m uvicorn --app-dir "${2:-$here}" "${3:-server}:app" --host 127.0.0.1 --port "$1"
