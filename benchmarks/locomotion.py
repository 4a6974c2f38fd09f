"""A holonomy of three links by the law of their ground, beside that of a linear drag: a circle of shapes, 128 steps;
the steps that each law needs for six digits; and the best stroke on dry ground, by links that creep less and less."""

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


CREEPS = (4e-3, 1e-3, 2.5e-4, 6.25e-5)
TRIANGLE = gd.strokes.PolygonStroke([[-1.0, 0.4], [-0.3, 0.1], [-0.5, 0.8]])


def squared_power(body, r, rdot):
    return gd.costs.energy(body, r, rdot) ** 2


def best_crawls() -> list:
    """The best strokes of the length 0.03 on dry ground, each from the one with more creep."""
    method = gd.Direct(corners=3, harmonics=9, steps=48)
    guess, found = TRIANGLE, []
    for creep in CREEPS:
        body = gd.swimmers.DryLinks([1 / 3, 1 / 3, 1 / 3], creep=creep)
        best = gd.optimal_stroke(body, guess, displacement=0.03, method=method, density=squared_power)
        guess = best.stroke
        found.append(best)
    return found


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

    first_search, _ = elapsed(best_crawls)
    warm_search, found = elapsed(best_crawls)
    rows = []
    for creep, best in zip(CREEPS, found):
        evidence = float(best.kkt_residual), float(best.second_order), int(best.iterations)
        rows.append([f"{creep:g}", f"{float(best.cost) ** 0.5:.6f}", *evidence])
    table("Best strokes on dry ground", ["creep", "work", "KKT residual", "second variation", "iterations"], rows)
    print(f"all of them: first call {first_search:.1f} s, warm {warm_search:.1f} s")


if __name__ == "__main__":
    main()
