"""Loops of hysteresis: force against displacement."""

import numpy as np

from geodyn._typing import Float
from geodyn.plot.style import axes, legend


def hysteresis(
    displacement: Float[np.ndarray, " T"], force: Float[np.ndarray, " T"], ax=None, *, label: str | None = None
):
    """Force against displacement, both [T], with an arrow on the way and, in the legend, the work ∮ f dx of all of it:
    after closed loops that is what they dissipated. Any consistent units."""
    x, f = np.asarray(displacement), np.asarray(force)
    work = np.sum((f[1:] + f[:-1]) / 2 * np.diff(x))
    ax = axes(ax, xlabel="displacement\n(any consistent unit)", ylabel="force\n(any consistent unit)")
    (line,) = ax.plot(x, f, linewidth=2, label=f"{label + ', ' if label else ''}work done {work:.4g}")
    early = (len(x) - 1) // 5
    style = {"arrowstyle": "-|>", "color": line.get_color(), "mutation_scale": 18}
    ax.annotate("", xy=(x[early + 1], f[early + 1]), xytext=(x[early], f[early]), arrowprops=style)
    return legend(ax, len(ax.lines))
