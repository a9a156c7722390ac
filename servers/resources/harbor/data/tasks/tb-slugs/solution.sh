#!/bin/bash
cat > /tmp/slugs.py <<'SCRIPT'
import re
import unicodedata

seen = {}
with open("/app/titles.txt", encoding="utf-8") as titles, open("/app/slugs.txt", "w") as out:
    for title in titles:
        plain = unicodedata.normalize("NFKD", title.lower().replace("ß", "ss"))
        plain = "".join(one for one in plain if not unicodedata.combining(one))
        slug = re.sub("[^a-z0-9]+", "-", plain).strip("-") or "untitled"
        seen[slug] = seen.get(slug, 0) + 1
        out.write(slug + (f"-{seen[slug]}" if seen[slug] > 1 else "") + "\n")
SCRIPT
python3 /tmp/slugs.py
