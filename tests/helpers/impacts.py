"""What the tests of contacts read from a trajectory."""

import numpy as np


def times(trajectory):
    """When its impacts were."""
    return np.asarray(trajectory.impacts.t[: int(trajectory.impacts.count)])


def contacts(trajectory):
    """Which contacts closed, in the order of time."""
    return np.asarray(trajectory.impacts.contact[: int(trajectory.impacts.count)]).tolist()
