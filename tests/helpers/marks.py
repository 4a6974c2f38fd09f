"""Which parameters of a test belong to the short part."""

import pytest


def slow(*names: str | int, quick: str | int) -> list:
    """Parameters of which only the last belongs to the short part."""
    return [*(pytest.param(name, marks=pytest.mark.long) for name in names), quick]
