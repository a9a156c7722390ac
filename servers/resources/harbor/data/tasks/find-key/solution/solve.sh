#!/bin/bash
cd /app/site
file=$(grep -rlE --exclude='*.example' '\bcg_[a-z0-9]{24}\b' . | head -1)
echo "${file#./}" > /app/found.txt
sed -i -E 's/\bcg_[a-z0-9]{24}\b/REMOVED/' "$file"
