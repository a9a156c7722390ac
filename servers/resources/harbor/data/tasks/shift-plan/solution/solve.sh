#!/bin/bash
cat > /tmp/plan.py <<'SCRIPT'
import json

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
people = json.load(open("/app/people.json"))


def fill(taken):
    """One shift after the other; None where nobody is left for the next one."""
    if len(taken) == 2 * len(DAYS):
        return taken
    day = DAYS[len(taken) // 2]
    for name, limits in people.items():
        if day not in limits["cannot"] and taken.count(name) < limits["most"] and taken[-1:] != [name]:
            if (found := fill([*taken, name])) is not None:
                return found
    return None


plan = fill([])
json.dump({day: {"early": plan[2 * n], "late": plan[2 * n + 1]} for n, day in enumerate(DAYS)}, open("/app/plan.json", "w"))
SCRIPT
python3 /tmp/plan.py
