#!/bin/bash
cat > /app/rotate.sh <<'SCRIPT'
#!/bin/sh
# rotate.sh FOLDER KEEP
set -e
folder=$1
keep=$2
case $keep in
  '' | *[!0-9]*) echo "KEEP is not a number: $keep" >&2; exit 2 ;;
esac
if [ "$keep" -lt 1 ]; then echo "KEEP is not greater than 0: $keep" >&2; exit 2; fi
for log in "$folder"/*.log; do
  [ -e "$log" ] || continue
  number=$keep
  rm -f "$log.$keep"
  while [ "$number" -gt 1 ]; do
    older=$number
    number=$((number - 1))
    if [ -e "$log.$number" ]; then mv "$log.$number" "$log.$older"; fi
  done
  mv "$log" "$log.1"
  : > "$log"
done
SCRIPT
