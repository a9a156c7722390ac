"""vllm_model before a real model: a tiny random one of `transformers` on the CPU, in an environment of its own.

`GYM_TEST_TORCH` names torch for pip where its usual wheel is too large: GYM_TEST_TORCH=torch==2.13.0+cpu.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from gym.collect.provenance import describe_rollout
from gym.http.pool import HttpClient
from gym.server.testing import Caller, running
from gym.wire.token_ids import GENERATION, LOG_PROBS, PROMPT
from tests.support.shipped import shipped_app

pytestmark = pytest.mark.long
PROGRAM = Path(__file__).parents[1] / "support" / "tiny_vllm.py"
SECONDS = 1800.0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("torch")
    python = os.environ.get("GYM_TEST_TORCH_PYTHON") or str(folder / "bin" / "python")
    if not Path(python).exists():
        install = (python, "-m", "pip", "install", "--quiet", os.environ.get("GYM_TEST_TORCH", "torch"), "transformers")
        for argv in ((sys.executable, "-m", "venv", str(folder)), install):
            subprocess.run(argv, check=True, timeout=SECONDS)
    with subprocess.Popen((python, str(PROGRAM)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@pytest.mark.parametrize("form", ["native", "spelled"])
async def test_the_ids_of_a_talk_are_contiguous_and_their_log_probs_are_the_models_own(tiny: str, form: str) -> None:
    fields = {"base_url": f"{tiny}/{form}/v1", "model": "tiny", "return_token_id_information": True}
    talk = [{"role": "user", "content": "Say something."}]
    http = HttpClient()
    with shipped_app("vllm_model", kind="models") as app:
        async with running(app.configured(fields, name="policy_model")) as url, Caller(url) as caller:
            for turn in range(4):
                answered = await caller.post("/v1/responses", {"input": talk})
                assert answered.status == 200, answered.body
                talk += answered.body["output"]
                talk.append({"role": "user", "content": f"And number {turn}?"})
    calls = [item for item in talk if GENERATION in item]
    assert len(calls) == 4
    for call in calls:
        asked = orjson.dumps({"prompt": call[PROMPT], "generation": call[GENERATION]})
        reply = await http.request("POST", f"{tiny}/{form}/score", body=asked, timeout=60)
        assert call[LOG_PROBS] == pytest.approx(orjson.loads(reply.body)["log_probs"], abs=1e-4)
    await http.aclose()
    assert describe_rollout({"response": {"output": talk}}).get("tokens_break") is None
    assert calls[-1][PROMPT][: len(calls[0][PROMPT])] == calls[0][PROMPT]
