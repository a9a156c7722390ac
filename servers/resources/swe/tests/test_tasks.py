"""Rows in the shapes of public data sets become tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import SweRow, Task, files_with_tests, image_of, patched_files, task_of

from gym.wire.failures import RolloutError

PARAMS: dict[str, Any] = {"responses_create_params": {"input": []}}
PATCH = """\
diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1 +1 @@
-1
+2
diff --git a/tests/data/x.json b/tests/data/x.json
new file mode 100644
diff --git a/tests/test_a.py b/tests/test_a.py
deleted file mode 100644
"""


def task(**fields: Any) -> Task:
    return task_of(SweRow.model_validate({**PARAMS, **fields}))


@pytest.mark.parametrize("given", [["a", "b"], '["a", "b"]'])
def test_ids_are_a_list_or_its_json(given: Any) -> None:
    assert task(FAIL_TO_PASS=given).FAIL_TO_PASS == ("a", "b")


def test_one_id_as_json_text_is_a_list_of_one() -> None:
    assert task(PASS_TO_PASS='"a"').PASS_TO_PASS == ("a",)


@pytest.mark.parametrize("bad", [3, "[a", {"a": 1}, [1]])
def test_ids_of_another_shape_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ValueError, match="FAIL_TO_PASS"):
        task(FAIL_TO_PASS=bad)


def test_an_instance_inside_the_row_is_read_and_the_outside_wins() -> None:
    inner = {"instance_id": "a__b-1", "base_commit": "1", "FAIL_TO_PASS": '["x"]', "patch": None}
    read = task(instance_dict=json.dumps(inner), base_commit="2")
    assert (read.instance_id, read.base_commit, read.FAIL_TO_PASS, read.patch) == ("a__b-1", "2", ("x",), "")
    params = {"input": [], "metadata": {"instance_id": "c__d-2", "instance_dict": json.dumps({"base_commit": "3"})}}
    read = task_of(SweRow.model_validate({"responses_create_params": params}))
    assert (read.instance_id, read.base_commit) == ("c__d-2", "3")


def test_a_bad_field_inside_is_the_rows_fault_by_name() -> None:
    with pytest.raises(RolloutError, match="FAIL_TO_PASS") as failed:
        task(instance=json.dumps({"FAIL_TO_PASS": 3}))
    assert failed.value.kind == "row"


def test_images_are_where_the_data_sets_have_them() -> None:
    assert image_of("Django__django-1", "verified") == "docker.io/swebench/sweb.eval.x86_64.django_1776_django-1:latest"
    assert image_of("A__b-1", "gym") == "docker.io/xingyaoww/sweb.eval.x86_64.a_s_b-1:latest"
    with pytest.raises(RolloutError, match="instance_id"):
        image_of("", "")


def test_an_image_of_the_row_wins_over_everything() -> None:
    assert task(image_name="x", dockerfile="FROM y", instance_id="a__b-1").source == {"image": "x"}
    assert task(dockerfile="FROM y", instance_id="a__b-1").source["build"].dockerfile == "FROM y"


def test_the_tests_files_are_those_of_the_patch_and_of_the_ids() -> None:
    assert patched_files(PATCH) == ("src/a.py", "tests/data/x.json", "tests/test_a.py")
    read = task(test_patch=PATCH, PASS_TO_PASS=["tests/test_b.py::test_x", "test_dotted (a.b)"])
    assert files_with_tests(read) == ("tests/test_a.py", "tests/test_b.py")


@given(st.dictionaries(st.sampled_from(sorted(Task.model_fields)), st.one_of(st.none(), st.integers(), st.text())))
def test_any_row_is_a_task_or_a_named_fault(fields: dict[str, Any]) -> None:
    read: Task | None = None
    fault = ""
    try:
        read = task(**fields)
    except (ValueError, RolloutError) as error:
        fault = str(error)
    assert read is not None or any(name in fault for name in fields)
