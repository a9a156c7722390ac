"""What turns the texts of a rollout into nodes, in a real browser: one page that checks them all."""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path

import orjson
import pytest

from gym.console.viewer.app import SCRIPTS
from tests.support.rollout_files import CHROMIUM, EVIL, browse

CONSOLE = Path(__file__).parents[3] / "gym" / "console"
VIEWER, BASE = CONSOLE / "viewer", CONSOLE / "pages" / "base.js"
HOSTILE = [
    EVIL,
    "<script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    "<svg onload=window.owned=1>",
    "<svg><script>window.owned=1</script></svg>",
    "<math><mtext><script>window.owned=1</script></mtext></math>",
    '"><iframe srcdoc="<script>parent.owned=1</script>">',
    "javascript:window.owned=1",
    "data:text/html,<script>window.owned=1</script>",
    "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+",
    "[a](javascript:window.owned=1)",
    '![a](x" onerror="window.owned=1)',
    "'-window.owned=1-'",
    "</script><script>window.owned=1</script>",
    "</textarea><script>window.owned=1</script>",
    "<a href=javascript:window.owned=1>x</a>",
    "<details open ontoggle=window.owned=1>",
    "<style>*{background:url(//evil.example)}</style>",
    "<base href=//evil.example/><form action=//evil.example><input name=a>",
    "{{constructor.constructor('window.owned=1')()}}",
    "__proto__",
    "constructor",
    "$\\href{javascript:window.owned=1}{x}$",
    "\\begin{matrix}<script>window.owned=1</script>\\end{matrix}",
    "\u202e<b onclick=window.owned=1>\u0000\u2028</b>",
    "```<img src=x onerror=window.owned=1>\n<script>window.owned=1</script>\n```",
    "url(javascript:window.owned=1)",
    "expression(window.owned=1)",
]


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_every_renderer_makes_what_it_should_and_nothing_that_runs(tmp_path: Path) -> None:
    names = [VIEWER / name for name in SCRIPTS if name != "page.js"]
    checks = Path(__file__).with_name("renderers.js").read_text("utf-8")
    hostile = orjson.dumps(HOSTILE).decode().replace("<", "\\u003c")
    parts = [*(path.read_text("utf-8") for path in (BASE, *names)), f"const HOSTILE = {hostile};", checks]
    inside = "\n".join(parts).replace("</script", "<\\/script")
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><body><script>{inside}</script></body>', "utf-8")
    dom, complaints = await browse(page.as_uri(), tmp_path)
    answer = re.search(r"FOUND(.*)END", dom, re.S)
    assert answer is not None, complaints
    found = orjson.loads(html.unescape(answer[1]))
    assert found["wrong"] == [], "\n".join(found["wrong"][:20])
    assert found["checked"] > 1500


def test_no_script_reads_text_as_markup_or_runs_it() -> None:
    for path in CONSOLE.rglob("*.js"):
        text = path.read_text("utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert word not in text, f"{path.name}: {word}"


def test_no_name_of_the_page_stands_twice() -> None:
    """The scripts share one scope: the second function of a name would replace the first in silence."""
    names: Counter[str] = Counter()
    for path in (BASE, *(VIEWER / name for name in SCRIPTS)):
        names.update(re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", path.read_text("utf-8"), re.M))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) > 150
