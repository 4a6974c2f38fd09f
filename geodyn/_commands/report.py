"""The output of every command: a folder of results, and a summary on the screen and in a file."""

import json
from pathlib import Path


def folder(out: str) -> Path:
    """The folder `out`, which is created if it does not exist."""
    path = Path(out)
    path.mkdir(parents=True, exist_ok=True)
    return path


def report(title: str, lines: dict, target: Path) -> None:
    """Print a summary, and write it as JSON to the file `target`.json."""
    print(f"\n{title}")
    for name, value in lines.items():
        print(f"  {name:26}{value:.12g}" if isinstance(value, float) else f"  {name:26}{value}")
    Path(f"{target}.json").write_text(json.dumps({"title": title, **lines}, indent=1) + "\n", encoding="utf-8")
