"""Different values are counted exactly, few or many, and memory does not grow with repeats."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from gym.data.uniques import Uniques


def observed(values: range, times: int = 1) -> Uniques:
    uniques = Uniques()
    for _ in range(times):
        for value in values:
            uniques.observe(str(value))
    return uniques


@pytest.mark.parametrize("size", [0, 3, 4096, 4097, 100_000])
def test_different_values_are_counted_and_repeats_are_not(size: int) -> None:
    assert observed(range(size), times=2).to_json() == {"unique_count": size, "total_count": 2 * size}


def test_parts_that_overlap_add_up() -> None:
    total = Uniques()
    total.add(observed(range(10)), times=3)
    total.add(observed(range(5, 50_000)))
    total.add(observed(range(40_000, 60_000)))
    assert total.to_json() == {"unique_count": 60_000, "total_count": 30 + 49_995 + 20_000}


def test_repeats_take_no_memory() -> None:
    uniques = observed(range(20_000), times=5)
    assert sum(len(part) for part in uniques._parts) < 3 * 20_000


def test_hashes_of_a_process_with_another_seed_are_refused() -> None:
    code = (
        "import pickle, sys\nfrom gym.data.uniques import Uniques\none = Uniques()\none.observe('x')\n"
        "sys.stdout.buffer.write(pickle.dumps(one))"
    )
    env = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    with pytest.raises(ValueError, match="another seed"):
        Uniques().add(pickle.loads(done.stdout))
