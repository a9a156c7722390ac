"""What commands print, as SVG, and the page of `gym view`, as PNG. No picture asks another host for a font."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

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
SIZES = {"view": "1200,800"}
FONTS = re.compile(r"@font-face \{.*?\}", re.S)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        try:
            for name, shown, run in TYPED:
                (folder / f"{name}.svg").write_text(draw(shown, type_in(work, run or shown)), "utf-8")
            type_in(work, "gym view first.jsonl -o page.html")
            for name, size in SIZES.items():
                take(work / "page.html", folder / f"{name}.png", size)
        finally:
            type_in(work, "gym down")


def type_in(work: Path, line: str) -> str:
    """What a terminal of that width would show, colours included."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PATH": f"{GYM.parent}:{os.environ['PATH']}"}
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


def take(page: Path, picture: Path, size: str) -> None:
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking")
    argv = ["chromium", *quiet, f"--window-size={size}", f"--screenshot={picture.absolute()}", page.as_uri()]
    subprocess.run(argv, check=True, capture_output=True)


main(Path(sys.argv[1]))
