"""Makes rows for the example server, mcp-server-time: python generate.py --count 100. No zone here has summer time."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

from gym.server.cases import CaseStep
from gym.server.generating import Made, main, make_row

MINUTES = {
    "UTC": 0,
    "Africa/Lagos": 60,
    "Africa/Nairobi": 180,
    "America/Bogota": -300,
    "America/Phoenix": -420,
    "Asia/Dubai": 240,
    "Asia/Kathmandu": 345,
    "Asia/Kolkata": 330,
    "Asia/Singapore": 480,
    "Asia/Tokyo": 540,
    "Australia/Brisbane": 600,
    "Pacific/Honolulu": -600,
}
ASK = """It is {time} in {source}. Use convert_time to find out what time it is then in {targets}. \
End with {form} between <answer> and </answer>."""
FORMS = {1: "the time, as HH:MM,", 2: "both times in this order, as HH:MM HH:MM,"}
COUNTS = {"easy": 1, "hard": 2}


class TimeRows:
    licence = "Apache 2.0"
    difficulties = tuple(COUNTS)

    def make(self, random: Random, difficulty: str) -> Made:
        count = COUNTS[difficulty]
        source, *targets = random.sample(sorted(MINUTES), count + 1)
        time = f"{random.randrange(24):02d}:{random.randrange(60):02d}"
        calls = [_call(time, source, target) for target in targets]
        answer = " ".join(_shifted(time, MINUTES[target] - MINUTES[source]) for target in targets)
        asked = ASK.format(time=time, source=source, targets=" and in ".join(targets), form=FORMS[count])
        key = f"{time} {source} {' '.join(targets)}"
        row = make_row("mcp_bridge", key, asked, expected_answer=answer, expected_calls=calls)
        steps = tuple(CaseStep(tool=one["name"], arguments=one["arguments"]) for one in calls)
        return Made(row, answer=f"<answer>{answer}</answer>", steps=steps, key=key)


def _call(time: str, source: str, target: str) -> dict[str, Any]:
    arguments = {"source_timezone": source, "time": time, "target_timezone": target}
    return {"name": "convert_time", "arguments": arguments}


def _shifted(time: str, minutes: int) -> str:
    return (datetime.strptime(time, "%H:%M") + timedelta(minutes=minutes)).strftime("%H:%M")  # noqa: DTZ007 (no date)


if __name__ == "__main__":
    raise SystemExit(main(TimeRows()))
