"""Reference values, from computations that share nothing with geodyn."""

import json
from pathlib import Path


def case(name: str) -> dict:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text())
