"""A holonomy of three links by the law of their ground, beside that of a linear drag: a circle of shapes, 128 steps;
and the steps that each law needs for six digits."""

import jax
from timing import elapsed, machine, medians, table

import geodyn as gd

jax.config.update("jax_enable_x64", True)
STROKE = gd.FourierStroke.circle(1.0)
LAWS = {
    "linear drag": gd.swimmers.NLink([1.0, 1.0, 1.0]),
    "perfect fluid": gd.swimmers.FluidLinks(),
    "perfect fluid, links that disturb each other": gd.swimmers.FluidLinks(interaction=True, gap=0.05),
    "power law, degree 1.7": gd.swimmers.PowerLawLinks(power=1.7),
    "Carreau's law": gd.swimmers.CarreauLinks(),
    "dry friction": gd.swimmers.DryLinks(),
    "dry friction opposite to the velocity": gd.swimmers.DryLinks(opposite=True),
    "sand": gd.swimmers.GranularLinks(),
}


def steps_needed(body) -> int:
    """The fewest steps, doubled from 8, with an error below 1e-6 of the displacement."""
    known = gd.holonomy(body, STROKE, steps=4096)[0, 2]
    steps = 8
    while steps < 2048 and abs(gd.holonomy(body, STROKE, steps=steps)[0, 2] / known - 1) > 1e-6:
        steps *= 2
    return steps


def main():
    print(machine())
    calls = {name: lambda body=body: gd.holonomy(body, STROKE) for name, body in LAWS.items()}
    first = {name: elapsed(call)[0] for name, call in calls.items()}
    warm = medians(calls)
    linear = warm["linear drag"]
    rows = [
        [name, first[name], 1e3 * warm[name], warm[name] / linear, steps_needed(body)] for name, body in LAWS.items()
    ]
    table("A holonomy", ["ground", "first call [s]", "warm [ms]", "/ linear", "steps for 1e-6"], rows)


if __name__ == "__main__":
    main()
