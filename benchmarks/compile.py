"""What a first call costs, in fresh processes: forward, gradient and batches of bodies, and optimal strokes, beside
diffrax and CasADi, and from the persistent cache; and `geodyn demo`.

    python benchmarks/compile.py [NAME ...]

Seconds from the first line after the imports to the first result: of tracing (with what geodyn loads when it is used),
of lowering and of XLA. "Process" is what one waits for who starts a script: from the start of Python, with the imports,
to its end. "Lines" are those of all programs in StableHLO. Run it on an idle machine: with any other work all are half
as long again.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import machine, table

REPEATS = 3
PARTS = {
    "lower": "jaxpr_to_mlir_module_duration",
    "XLA": "backend_compile_duration",
}


def cases():
    """Functions of nothing by name, the first call of which is timed."""
    import jax
    import jax.numpy as jnp
    from problems import rigid_rod

    import geodyn as gd

    corners = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    sides = [(i, j) for i in range(4) for j in range(i)]

    def elastic(stiffness):
        return gd.integrate(*elastic_rod(stiffness), t1=5.0, steps=200).q[-1]

    def rigid(length):
        system, x, v = rigid_rod()
        return gd.integrate(system, x, length * v, t1=1.0, steps=100).q[-1]

    def spheres(radius):
        system = gd.System(gd.spaces.Euclidean(3), [1.0, 1.0], gd.Contact(radius))
        x, v = [[-1.0, 0, 0], [1, 0.1, 0]], [[1.0, 0, 0], [-1, 0, 0]]
        return gd.integrate(system, x, v, t1=2.0, steps=100).q[-1]

    def tetrahedron(mass):
        rods = gd.Rod(sides, np.sqrt(8.0))
        system = gd.System(gd.spaces.Euclidean(3), [mass, 1.0, 1.0, 1.0], rods)
        return gd.integrate(system, corners, np.cross([0.3, 0.2, 1.0], corners), t1=1.0, steps=100).q[-1]

    def own_metric(bump):
        space = gd.Manifold(lambda x: (1 + bump * x @ x) * jnp.eye(2), 2)
        system = gd.System(space, [1.0, 1.0, 1.0], gd.Spring([(0, 1), (1, 2)], 1.0, 0.5))
        return gd.integrate(system, [[0.0, 0], [0.5, 0], [0.5, 0.5]], np.eye(3, 2) / 4, t1=1.0, steps=50).q[-1]

    def both(function):
        one, total = jnp.ones(()), lambda x: function(x).sum()
        return lambda: jax.jit(function)(one), lambda: jax.jit(jax.grad(total))(one)

    found = {"elastic rod": both(elastic)[0], "its gradient": both(elastic)[1]}
    found["1000 of them"] = lambda: jax.jit(jax.vmap(elastic))(jnp.linspace(1.0, 2.0, 1000))
    found |= dict(zip(("rigid rod", "rigid rod, gradient"), both(rigid), strict=True))
    found |= dict(zip(("two spheres", "two spheres, gradient"), both(lambda x: spheres(0.3 * x)), strict=True))
    found["rigid tetrahedron"] = both(tetrahedron)[0]
    found["three masses, own metric, gradient"] = both(lambda x: own_metric(0.3 * x))[1]
    found["Purcell's stroke"] = lambda: gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.1)
    found["stroke of four links of one's own"] = lambda: gd.optimal_stroke(four_links(), displacement=0.1)
    return found | of_diffrax() | of_casadi()


def elastic_rod(stiffness):
    """The rod of the README, in the Poincaré ball: (system, q0, v0)."""
    import geodyn as gd

    body = gd.System(gd.spaces.Hyperbolic(3), [1.0, 1.0], gd.Spring([(0, 1)], stiffness, 1.0))
    return body, np.array([[0.0, 0.3, 0.0], [0.0, -0.3, 0.0]]), np.array([[0.4, 0.0, 0.1], [0.4, 0.0, -0.1]])


def four_links():
    """A chain of four links, equally long, written as a user writes a swimmer of his own."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import geodyn as gd

    class Chain(gd.AbstractSlenderSwimmer):
        lengths: jax.Array = eqx.field(default=(0.5, 0.5, 0.5, 0.5), converter=jnp.asarray)
        drag_ratio: float = 2.0
        group: gd.groups.SE2 = gd.groups.SE2()
        shape_names = ("first (rad)", "second (rad)", "third (rad)")

        def links(self, r):
            angles = jnp.stack([-r[0] - r[1] / 2, -r[1] / 2, r[1] / 2, r[1] / 2 + r[2]])
            steps = self.lengths[:, None] * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
            centres = jnp.cumsum(steps, axis=0) - steps / 2
            return jnp.column_stack([centres - centres.mean(0), angles])

    return Chain()


def of_diffrax():
    """The elastic rod by Dopri8, with geodyn's own right-hand side."""
    if importlib.util.find_spec("diffrax") is None:
        return {}
    import jax
    import jax.numpy as jnp

    def end(stiffness):
        import diffrax

        system, q0, v0 = elastic_rod(stiffness)

        def rate(t, y, _):
            return ((v := system.velocity(t, *y)), system.force(t, y[0], v, jnp.zeros(0)))

        control = diffrax.PIDController(rtol=1e-8, atol=1e-8)
        y0 = q0.ravel(), system.momentum(0.0, q0.ravel(), v0.ravel())
        term, saved = diffrax.ODETerm(rate), diffrax.SaveAt(t1=True)
        solver = diffrax.Dopri8()
        return diffrax.diffeqsolve(term, solver, 0.0, 5.0, 0.1, y0, stepsize_controller=control, saveat=saved).ys[0]

    one, many = jnp.ones(()), jnp.linspace(1.0, 2.0, 1000)
    return {
        "diffrax: elastic rod": lambda: jax.jit(end)(one),
        "diffrax: its gradient": lambda: jax.jit(jax.grad(lambda x: end(x).sum()))(one),
        "diffrax: 1000 of them": lambda: jax.jit(jax.vmap(end))(many),
    }


def of_casadi():
    """Purcell's stroke by CasADi with IPOPT."""
    if importlib.util.find_spec("casadi") is None:
        return {}
    import strokes

    return {"casadi: Purcell's stroke": lambda: strokes.of_casadi(importlib.import_module("casadi"))(0.1)["f"].full()}


def child(name):
    """In a fresh process: print [seconds, of tracing, *parts, programs compiled] of a first call."""
    import jax

    if name.startswith(("diffrax", "casadi")):
        importlib.import_module(name.split(":")[0])
    jax.config.update("jax_enable_x64", True)
    spent, compiled = dict.fromkeys(PARTS.values(), 0.0), [0]

    def listen(event, seconds, **_):
        last = event.rsplit("/", 1)[-1]
        if last in spent:
            spent[last] += seconds
            compiled[0] += last == PARTS["XLA"]

    function = cases()[name]
    jax.monitoring.register_event_duration_secs_listener(listen)
    begin = time.monotonic()
    jax.block_until_ready(function())
    seconds = time.monotonic() - begin
    print(json.dumps([seconds, seconds - sum(spent.values()), *spent.values(), compiled[0]]))


def fresh(name, folder=None, programs=None):
    """What `child` prints, and the seconds of its process, with the persistent cache in a folder; the programs are
    written into another."""
    # Without bytecode on the disk Python would compile geodyn's own files again, which pip does once for all.
    unwanted = ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if k not in unwanted}
    # XLA warns of the features "prefer-no-…" of its own compiler, which no machine lists, when it reads its cache.
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    if folder is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = folder
    if programs is not None:
        environment["JAX_DUMP_IR_TO"] = programs
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--child", name], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return [*json.loads(done.stdout.splitlines()[-1]), time.monotonic() - begin]


def lines(folder) -> int:
    """The number of lines of all programs in the folder."""
    return sum(path.read_text().count("\n") for path in Path(folder).glob("*.mlir"))


def demo() -> list[float]:
    """Seconds of the process `geodyn demo`, as after installation, and the second time."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "geodyn", "demo", "--out", folder]
        options = {"env": os.environ | {"XDG_CACHE_HOME": folder}, "stdout": subprocess.DEVNULL, "check": True}
        begin = time.monotonic()
        subprocess.run(command, **options)
        first = time.monotonic() - begin
        subprocess.run(command, **options)
        return [first, time.monotonic() - begin - first]


def main(names):
    """Print the table."""
    rows = []
    for name in names or cases():
        cold = np.median([fresh(name) for _ in range(REPEATS)], axis=0)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as programs:
            fresh(name, folder, programs)
            rows.append([name, *cold, str(lines(programs)), fresh(name, folder)[0]])
    if not names:
        first, second = demo()
        rows.append(["geodyn demo", *["–"] * 5, first, "–", second])
    head = ["first call in a process", "seconds", "trace", *PARTS, "programs", "process", "lines", "from the cache"]
    table(f"First calls, {machine()}", head, rows)


if __name__ == "__main__":
    child(sys.argv[2]) if sys.argv[1:2] == ["--child"] else main(sys.argv[1:])
