#!/usr/bin/env python3
import json
import os

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def is_right(people, plan):
    if list(sorted(plan)) != sorted(DAYS) or any(sorted(plan[day]) != ["early", "late"] for day in DAYS):
        return False
    taken = [plan[day][shift] for day in DAYS for shift in ("early", "late")]
    if any(name not in people or taken.count(name) > people[name]["most"] for name in taken):
        return False
    if any(day in people[name]["cannot"] for day in DAYS for name in plan[day].values()):
        return False
    nights = zip(DAYS, DAYS[1:])
    return all(plan[day]["early"] != plan[day]["late"] for day in DAYS) and all(
        plan[first]["late"] != plan[second]["early"] for first, second in nights
    )


try:
    # The people of this image: those of the agent's may have been changed.
    right = is_right(json.load(open("/app/people.json")), json.load(open(os.environ["PLAN"])))
except Exception as error:
    print(f"no plan: {error!r}")
    right = False
open("/logs/verifier/reward.txt", "w").write("1.0" if right else "0.0")
