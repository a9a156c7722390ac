"""What commands print, as SVG, and the page of `gym view`, as PNG. No picture asks another host for a font."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.support.driven_browser import driven

GYM = Path(sys.executable).with_name("gym")
WIDTH = 110
UP = "gym up simple_weather mcqa --model scripted"
# What is typed, as the picture shows it, and as it is run here.
TYPED = (
    ("up", UP, f"{UP} --runtime local --port 0"),
    ("ask", 'gym ask simple_weather_simple_agent "What is the weather in Paris?"', ""),
    ("rollouts", "gym rollouts mcqa -o first.jsonl --repeats 8", ""),
    ("profile", "gym profile first.jsonl", ""),
)
AGAIN = "gym rollouts mcqa -o second.jsonl --repeats 8 --params '{\"temperature\": 0.5}'"
# Pages of the stack's console, where `results` is the folder that the commands ran in.
PAGES = {
    "stack": ("", "#main svg path"),
    "run": ("view/runs?run=first", ".chart"),
    "compare": ("view/compare?run=first&run=second", ".verdict"),
}
FONTS = re.compile(r"@font-face \{.*?\}", re.S)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        try:
            for name, shown, run in TYPED:
                (folder / f"{name}.svg").write_text(draw(shown, type_in(work, run or shown)), "utf-8")
            type_in(work, f"gym view first.jsonl -o page.html && {AGAIN}")
            router = re.findall(r"http://127\.0\.0\.1:\d+", type_in(work, "gym ps --json"))[0]
            pages = {name: (f"{router}/{path}", shown) for name, (path, shown) in PAGES.items()}
            asyncio.run(take({"view": ((work / "page.html").as_uri(), "#reading h2"), **pages}, folder, work))
        finally:
            type_in(work, "gym down")


def type_in(work: Path, line: str) -> str:
    """What a terminal of that width would show, colours included."""
    env = {
        **os.environ,
        "FORCE_COLOR": "1",
        "COLUMNS": str(WIDTH),
        "GYM_RESULTS": str(work),
        "PATH": f"{GYM.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(["bash", "-c", line], cwd=work, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{line}\n{done.stdout}{done.stderr}")
    return done.stdout.rstrip()


def draw(shown: str, output: str) -> str:
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text.assemble(("$ ", "bold green"), shown))
        console.print(Text.from_ansi(output))
        return FONTS.sub("", console.export_svg(title="", unique_id="picture")).replace("Fira Code", "monospace")


async def take(pages: Mapping[str, tuple[str, str]], folder: Path, work: Path) -> None:
    """Each once it shows what it is for."""
    async with driven(work / "browser") as browser:
        await browser.look(width=1200, height=800)
        for name, (url, shown) in pages.items():
            await browser.open(url)
            await browser.until(f"document.querySelectorAll({shown!r}).length > 0")
            await browser.screenshot(folder / f"{name}.png")


main(Path(sys.argv[1]))
