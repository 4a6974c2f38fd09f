"""Wrong input, one argument at a time, as tests/fuzz.py makes it: named, never taken, never endless."""

import collections

import fuzz
import pytest

SAMPLE = ["gd.distance", "gd.Spring", "gd.FourierStroke", "gd.nonholonomic.Car", "gd.groups.quaternion"]
# Of 200 wrong arguments: errors from inside, or such that do not name the argument.
MOST_UNNAMED = 20


def told(found) -> str:
    bad = [line for line in found if line["kind"] in ("raw", "silent", "hang", "crash", "unnamed", "example")]
    return "\n".join(f"{line['kind']}: {line.get('case', line.get('name'))}: {line['said']}" for line in bad)


def test_a_sample_is_refused_by_name():
    found = fuzz.outcomes(SAMPLE, seed=3, most=12)
    assert len(found) > 120
    assert not told(found), told(found)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_hangs_or_ends_the_process():
    found = fuzz.outcomes(fuzz.chosen([]), seed=4, most=4)
    kinds = collections.Counter(line["kind"] for line in found)
    assert not kinds["crash"] and not kinds["hang"] and not kinds["example"], told(found)
    assert 200 * (kinds["raw"] + kinds["unnamed"]) <= MOST_UNNAMED * len(found), told(found)
