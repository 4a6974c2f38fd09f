"""One body, eight grounds

Three equal links, and the same stroke six times: a circle in the plane of the two hinge angles. What the ground does
decides how far the body comes, and afloat in empty space it comes nowhere.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import geodyn as gd

jax.config.update("jax_enable_x64", True)

lengths = (1 / 3, 1 / 3, 1 / 3)
grounds = {
    "viscous fluid": gd.swimmers.NLink(lengths),
    "fluid that thins": gd.swimmers.PowerLawLinks(lengths, power=1.5),
    "surface of a granular bed": gd.swimmers.GranularLinks(lengths),
    "dry friction, twice as much across": gd.swimmers.DryLinks(lengths),
    "dry friction, the same all round": gd.swimmers.DryLinks(lengths, friction=(1.0, 1.0)),
    "perfect fluid": gd.swimmers.FluidLinks(lengths, gap=0.05),
    "the same, links disturb each other": gd.swimmers.FluidLinks(lengths, gap=0.05, interaction=True),
    "empty space": gd.swimmers.FloatingLinks(lengths),
}
stroke = gd.FourierStroke.circle(0.9)
figure, panels = plt.subplots(4, 2, figsize=(9, 6.5), sharex=True, sharey=True, layout="constrained")
for (name, body), panel in zip(grounds.items(), panels.T.ravel(), strict=True):
    gd.plot.wake(body, stroke, panel, strokes=6).set(xlabel="", ylabel="")
    moved = jnp.linalg.norm(gd.holonomy(body, stroke)[:2, 2])
    panel.set_title(f"{name}: {moved:.3f} lengths a stroke", fontsize=9)
figure.savefig("grounds.png")
