"""Makes rows of a data set of the package: python generate.py --count 5 --task dummy. Tasks of the others by index."""

from random import Random

from aviary.core import TASK_DATASET_REGISTRY

from gym.server.cases import CaseStep
from gym.server.generating import Made, main, make_row

STORIES = "one cat found two mice", "rain fell on quiet towns", "nobody saw the old ship"
SYSTEM = "Use the tools to do what you are asked. This is task {number} of {task}."
INDICES = 1000  # of the data sets that have indices: each has more


class AviaryRows:
    licence = "Apache 2.0, as the package"
    difficulties = ("any",)
    tasks = tuple(sorted(TASK_DATASET_REGISTRY))

    def make(self, random: Random, difficulty: str, task: str = "dummy") -> Made:
        number = random.randrange(INDICES)
        asked = [{"role": "system", "content": SYSTEM.format(number=number, task=task)}]
        fields = {} if task == "dummy" else {"task_index": number}
        steps = (CaseStep(tool="print_story", arguments={"story": random.choice(STORIES)}),) if task == "dummy" else ()
        key = f"{task} {number}"
        return Made(make_row("aviary", key, asked, **fields), steps=steps, key=key)


if __name__ == "__main__":
    raise SystemExit(main(AviaryRows()))
