"""The `gym` command. With the bare SDK installed it says what to install instead of failing on an import."""

import gc
import importlib.util
import sys

NEW_OBJECTS = 50_000  # between two looks for garbage: at the usual 2,000 they take a twelfth of a command's imports


def main() -> int:
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    try:
        return _run()
    finally:
        gc.freeze()  # at its end Python would look for garbage in all that was imported: 50 ms


def _run() -> int:
    missing = [name for name in ("typer", "rich", "jinja2", "httpx") if importlib.util.find_spec(name) is None]
    if missing:
        from gym.programs import install_command  # noqa: PLC0415  (a start pays for it only here)

        sys.stderr.write(
            f"gym: this environment holds the server SDK only ({', '.join(missing)} not installed).\n"
            f"The command line comes with: {install_command('compose-gym[cli]')}\n"
        )
        return 1
    try:
        from gym.cli.main import run  # noqa: PLC0415  (only importable with the cli extra)

        return run()
    except KeyboardInterrupt:  # before the command line's own boundary stands, or after it
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
