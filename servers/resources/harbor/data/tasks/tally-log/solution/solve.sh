#!/bin/bash
cd /app
grep -v '^#' access.log | awk '{ n[$4]++; b[$4] += ($5 == "-" ? 0 : $5) }
END { printf "{"; for (s in n) { printf "%s\"%s\": {\"answers\": %d, \"bytes\": %d}", part, s, n[s], b[s]; part = ", " } print "}" }' > report.json
