"""Wrong input, one argument at a time: every public callable is called as its own example calls it, with one argument
made wrong, and what comes of that is sorted.

    python tests/fuzz.py --seed 1 --most 12 gd.distance gd.plot     names, or rooms; all without one
    python tests/fuzz.py --show raw,silent …                        prints these

A `clean` outcome is a ValueError or TypeError that geodyn itself raises and that names the argument, a `status` the
failure of a run. `raw` is an error from inside, or one that does not name the argument; `silent` a wrong argument that
was taken; `hang` what runs for more than LONGEST seconds, `crash` what ends the process. What may be taken is written
down in `ACCEPTABLE`.
"""

import argparse
import ast
import collections
import contextlib
import dataclasses
import doctest
import inspect
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

LONGEST = 5.0
PROCESS = 900.0  # A process that says nothing for so many seconds hangs where no signal reaches it.


def setting():
    """What every process starts with."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import matplotlib
    import numpy as np

    import geodyn as gd

    matplotlib.use("Agg")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_compilation_cache_dir", str(Path(tempfile.gettempdir()) / "geodyn-fuzz"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_disable_most_optimizations", True)
    return {"gd": gd, "jax": jax, "jnp": jnp, "np": np, "eqx": eqx}


def public() -> dict:
    """Every public callable by its name."""
    import geodyn as gd

    rooms = {"gd": gd} | {f"gd.{name}": room for name in gd.__all__ if inspect.ismodule(room := getattr(gd, name))}
    found = {f"{room}.{name}": getattr(module, name) for room, module in rooms.items() for name in module.__all__}
    # It changes the settings of its process; Python checks its numbers; what a step hands on inside of a run.
    left_out = "gd.cache", "gd.RESULTS", "gd.methods.Advanced"
    return {name: value for name, value in found.items() if callable(value) and name not in left_out}


@dataclasses.dataclass
class Call:
    """A call in an example: what it is written as, and what it is given."""

    text: str
    function: object
    args: tuple
    kwargs: dict

    def arguments(self) -> list:
        """(where it stands in the call, the name of the parameter, the value) of each argument, given or not."""
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):
            return []
        found = []
        for i, value in enumerate(self.args):
            here = parameters[i] if i < len(parameters) and parameters[i].kind.name.startswith("POSITIONAL") else None
            rest = next((p for p in parameters if p.kind.name == "VAR_POSITIONAL"), None)
            found.append((i, (here or rest).name if here or rest else str(i), value))
        found += [(key, key, value) for key, value in self.kwargs.items()]
        given = {name for _, name, _ in found}
        named = [p for p in parameters if p.kind.name in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")]
        return found + [(p.name, p.name, p.default) for p in named if p.name not in given and p.default is not p.empty]

    def may_be_none(self, name: str) -> bool:
        """Whether a parameter is None by default."""
        parameter = inspect.signature(self.function).parameters.get(name)
        return parameter is not None and parameter.default is None


class _Marked(ast.NodeTransformer):
    """Calls are made by `__called`, which writes them down."""

    def visit_Call(self, node):
        text = ast.unparse(node.func)
        self.generic_visit(node)
        return ast.copy_location(
            ast.Call(ast.Name("__called", ast.Load()), [ast.Constant(text), node.func, *node.args], node.keywords), node
        )

    def visit_Lambda(self, node):
        return node

    def visit_FunctionDef(self, node):
        return node

    visit_ClassDef = visit_FunctionDef


def is_ours(function) -> bool:
    """Whether a callable is one of geodyn's."""
    owner = getattr(function, "__self__", None)
    module = (
        getattr(function, "__module__", None) if owner is None or inspect.isclass(owner) else type(owner).__module__
    )
    of_object = type(function).__module__ if not inspect.isroutine(function) and not inspect.isclass(function) else ""
    return ((module or "").startswith("geodyn") and not of_object.startswith("geodyn")) or (
        type(function).__name__ == "BoundMethod" and type(owner).__module__.startswith("geodyn")
    )


def calls_of(value, known) -> list[Call]:
    """The calls of public things in an example."""
    import jax

    found = []

    def called(text, function, *args, **kwargs):
        traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((args, kwargs)))
        if is_ours(function) and not traced:
            found.append(Call(text, function, args, kwargs))
        return function(*args, **kwargs)

    example = doctest.DocTestParser().get_doctest(inspect.cleandoc(value.__doc__ or ""), {}, "", None, 0)
    space = dict(known) | {"__called": called, "__name__": "example"}
    for part in example.examples:
        tree = ast.fix_missing_locations(_Marked().visit(ast.parse(part.source)))
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(tree, "<example>", "exec"), space)
    return found


# What an argument is made into. Each is (label, the value); `TRACED` is made inside of `jax.jit`.
class TRACED:
    """Stands for the good value, traced."""


def bad_values(good) -> list[tuple[str, object]]:
    """Wrong values for an argument, those that resemble the good one among them."""
    import numpy as np

    import geodyn as gd

    wrong = {
        "None": None,
        "empty string": "",
        "string": "text",
        "bytes": b"x",
        "nan": float("nan"),
        "inf": float("inf"),
        "complex": 1 + 2j,
        "date": np.datetime64("2020-01-01"),
        "bool": True,
        "huge": 10**12,
        "huger": 10**30,
        "minus one": -1,
        "zero": 0,
        "half": 1.5,
        "empty list": [],
        "dict": {"a": 1.0},
        "set": {1.0, 2.0},
        "object": object(),
        "objects": np.array([object(), None]),
        "ragged": [[1.0, 2.0], [3.0]],
        "strings": ["a", "b"],
        "class": dict,
        "descriptor": 3,
        "range 4 array": np.ones((2, 3, 4, 5)),
        "function": lambda a, b, c, d, e, f, g: None,
        "generator": (x for x in ()),
        "space": gd.spaces.Euclidean(2),
        "swimmer": gd.swimmers.Purcell(),
        "group": gd.groups.SE2(),
        "ode": gd.ODE(lambda t, y: -y),
    }
    if isinstance(good, bool | np.bool_):
        return [(label, value) for label, value in wrong.items() if label != "bool"]
    if isinstance(good, str):
        return [*wrong.items()]
    if isinstance(good, int | np.integer):
        return [*wrong.items(), ("traced", TRACED)]
    numbers = as_numbers(good)
    if numbers is not None and numbers.size:
        shape = numbers.shape
        first = np.zeros(shape, bool)
        first[(0,) * len(shape)] = True
        wrong |= {
            "one nan": np.where(first, np.nan, numbers),
            "one inf": np.where(first, -np.inf, numbers),
            "complex numbers": numbers + 0.5j,
            "masked": np.ma.masked_array(numbers, first),
            "as strings": numbers.astype(str),
            "as objects": numbers.astype(object),
            "as bools": numbers.astype(bool),
            "a list of None": [None] * numbers.size,
            "one axis more": numbers[None],
            "negative": -np.abs(numbers) - 1,
            "traced": TRACED,
        }
        if shape:
            wrong |= {"one less": numbers[:-1], "one more": np.concatenate([numbers, numbers[:1]]), "a number": 0.5}
            wrong |= {"less in rows": numbers[..., :-1]}
        if numbers.dtype.kind == "i":
            wrong |= {"far index": numbers + 99, "floats": numbers + 0.5}
    if callable(good) and not inspect.isclass(good):
        wrong |= {
            "no argument": lambda: 1.0,
            "gives None": lambda *args, **kwargs: None,
            "gives a string": lambda *args, **kwargs: "text",
            "gives complex": lambda *args, **kwargs: 1j,
            "gives a matrix": lambda *args, **kwargs: np.ones((7, 5)),
            "float of traced": lambda *args: float(args[0]),
        }
    if isinstance(good, tuple | list) and good:
        wrong |= {"one less": good[:-1], "one more": (*good, good[-1])}
    return list(wrong.items())


def as_numbers(good):
    """A good value as an array of numbers, else None."""
    import numpy as np

    if isinstance(good, dict | str | bytes) or callable(good):
        return None
    try:
        array = np.asarray(good)
    except Exception:
        return None
    return array if array.dtype.kind in "fiu" else None


# Numbers of any sign and size are physics where a function does not refuse them; it must then answer in numbers.
SIGNED = "huge|minus one|zero|half|negative|descriptor|traced"
# What may be right where nothing is known of what is right.
PERHAPS = (
    "None|zero|half|minus one|descriptor|huge|string|empty string|empty list|function|class|space|swimmer|group|ode"
)
FUNCTIONS = "no argument|gives .*|float of traced"
# (the text of the call, the parameter, the label): what is taken on purpose. Regular expressions.
ACCEPTABLE: list[tuple[str, str, str]] = [
    # Ropes beside each other, and points of a body that is not known yet.
    (r"gd\.(\w+\.)?(Spring|Rod|PlasticSpring|Rigid\w+|Angle|Area|Volume)", ".*", "one more|far index"),
    # More cells, and the edges of triangles; polynomials of any degree.
    (r"gd\.cells\.(strain|stretches)", "cells", "one more|less in rows"),
    (r"gd\.bundles\.MeasuredConnection", "powers", "far index|as objects"),
    (r"gd\.swimmers\.Passive", "hinges", "as objects"),
    # One number for each of one.
    (
        r"gd\..*",
        "stiffness|lengths?|radii|restitution|friction|coefficient|masses|area|volume|angle|damping",
        "one axis more",
    ),
    (r"gd\..*", "strength", "one axis more"),
    (r"gd\.rigid\.RigidBodies", "inertia", "one axis more"),
    # An index of the first; a number of a picture's inches and ranges, written as a whole one.
    (r"gd\..*", "body|field|index|joint", "zero|descriptor"),
    (r"gd\.plot\.\w+", "width|height|lower|upper", "half|far index|floats|huge"),
    # A pair twice; no pins; what is None by default may be a number.
    (r"gd\..*", "edges|view", "one more|as objects"),
    (r"gd\.groups\.Isometries", "curvature", "minus one|zero"),
    (r"gd\.linkages\.linkage", "pins", "empty list|one less"),
    (r"gd\.builders\.lattice", "shape", "one less|one more|less in rows|far index"),
    (r"gd\.builders\.velocities", "q0", "one more|one less"),
    (r"gd\.builders\.\w+", "stiffness", "half|descriptor|None"),
    (r"gd\.(strokes\.PolygonStroke|spaces\.Atlas)", "corners|charts", "one more"),
    (r"gd\.strokes\.PolygonStroke", "corners", "one less"),
    (r"gd\.friction\.PlasticSpring", "yield_force", "one axis more"),
    # This method has no estimate of its errors, which is NaN.
    (r"gd\.friction\.quasi_static", "t0|t1", "zero|huge"),
    (r"gd\.rigid\.\w+", "points", "one more|empty list"),
    (r"gd\.plot\.Labels", "coordinates", "strings|empty list"),
    # Any boxes; a list of numbers is one whatever its type is.
    (r"gd\.plot\.attitudes", "shape", "one more"),
    (r"gd\.plot\.\w+", "variables", "as objects"),
    (r"gd\.hamilton\.discrete_action", "path", "one more|one less"),
    (r"gd\.strokes\.SplineStroke\.through", "points", "one more|one less"),
    # A row of one, with which the search begins.
    (r"gd\.optimal_strokes?", "displacement", "one axis more"),
    # Names and titles are any text; what is None by default may be None.
    (r"gd\..*|labels\.of", "name|label|title|length|time|mass|unit|html", "string|empty string"),
    (r"gd\..*", "times|model|stroke|guess|system|rotation|ax", "None"),
    (r"gd\..*", "times|ts|t|members", "one less|one more|less in rows|a number|empty list"),
    (r".*\.save", "path", "string"),
    # What a function gives is known where it is evaluated; test_fuzz.py sees that it is refused there.
    (r"gd\.(Lagrangian|Wall|ODE|Manifold)|gd\.(hamilton|friction|rigid|systems|nonholonomic)\.\w+", ".*", FUNCTIONS),
    (
        r"gd\.bundles\.(Reframed|Reshaped|KaluzaKlein)|gd\.strokes\.\w+|gd\.swimmers\.(PointMasses|Serpenoid)",
        ".*",
        FUNCTIONS,
    ),
    # All objects of geodyn have sources.
    (r"gd\.cite", "what", "ode|space|swimmer|group"),
    # What is not finite is not drawn; the first component; a body with fewer elements or masses.
    (r"gd\.plot\.\w+", "values|cost|displacement|multiplier|parameter", "one nan|one inf"),
    (r"gd\.plot\.\w+", "component", "zero"),
    (r"gd\.builders\.combine", "elements", "one less|one more|empty list"),
    (r"gd\.swimmers\.NLink", "lengths", "one less|one more|less in rows"),
    (r"gd\.swimmers\.Modes", "matrix", "less in rows"),
    (r"gd\.swimmers\.PointMasses", "masses", "one less|one more|less in rows"),
    # The coordinates of a point in a space that is not known yet; one body in a list.
    (r"gd\.(Pin|Harmonic|Kepler)", "position|centre", "one more|one less|less in rows"),
    (r"gd\.Gravity", "axis", "minus one|zero"),
    (r"\w+\.state", ".*", "one axis more"),
]


class KeptFolder:
    """A temporary folder that stays."""

    def __enter__(self):
        return tempfile.mkdtemp()

    def __exit__(self, *_):
        pass


class Late(BaseException):
    """A call took too long."""


def outcome(call: Call, place, name: str, label: str, value, good) -> tuple[str, str]:
    """(the kind of outcome, what was said) of a call with one argument made wrong."""
    import jax
    import numpy as np
    from matplotlib import pyplot

    args, kwargs = list(call.args), dict(call.kwargs)

    for stream in (x for x in args if hasattr(x, "seek")):
        stream.seek(0)

    def run(x):
        if isinstance(place, int):
            args[place] = x
        else:
            kwargs[place] = x
        return call.function(*args, **kwargs)

    def late(*_):
        raise Late

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            if value is TRACED:
                result = jax.jit(lambda x: (run(x), 0)[1])(np.asarray(good))
            else:
                result = run(value)
            jax.block_until_ready(result)
        signal.setitimer(signal.ITIMER_REAL, 0)
        said = "failed" if any(str(x.message).startswith("NaN") for x in told) else describe(result)
        return "status" if said == "failed" else "taken", said
    except Late:
        return "hang", ""
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return sort(error, name)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        pyplot.close("all")


STATUS = "result", "status"


def _has_status(x) -> bool:
    return any(hasattr(x, name) for name in STATUS)


def describe(result) -> str:
    """A result in few words; whether it tells that it failed, or has numbers that are not finite."""
    import jax
    import numpy as np

    try:
        leaves = [np.asarray(x) for x in jax.tree.leaves(result) if isinstance(x, jax.Array | np.ndarray | float)]
        bad = any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in leaves)
    except Exception:
        bad = False
    statuses = [getattr(x, name, 0) for x in jax.tree.leaves((result,), is_leaf=_has_status) for name in STATUS]
    if any(np.any(np.asarray(getattr(x, "_value", x)) != 0) for x in statuses):
        return "failed"
    return ("NaN " if bad else "") + re.sub(r"\s+", " ", repr(result)[:80])


def sort(error, name) -> tuple[str, str]:
    """The kind of an error."""
    said = f"{type(error).__name__}: {str(error)[:300]}"
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    where = frames[-1] if frames else ""
    last = f"{'/'.join(where.split('/')[-2:])}"
    if type(error).__name__ in ("IntegrationError", "MotionError", "StrokeError"):
        return "status", said
    from_us = "/geodyn/" in where or where.endswith("fuzz.py") or where.startswith("<")
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return "raw", f"{last}: {said}"
    if not isinstance(error, ValueError | TypeError | ImportError | OSError) or not from_us:
        return "raw", f"{last}: {said}"
    named = re.search(rf"\b{re.escape(name)}\b", str(error)) is not None
    if not isinstance(error, ValueError | OSError | ImportError) and not (
        named and ("argument" in str(error) or "parameter" in str(error))
    ):
        return "raw", f"{last}: {said}"
    return ("clean" if named else "unnamed"), f"{last}: {said}"


def may_be_taken(text: str, name: str, label: str, good, said: str) -> bool:
    """Whether it is written down that this is taken."""
    real = as_numbers(good) is not None and not isinstance(good, bool | int)
    if real and re.fullmatch(SIGNED, label) and not said.startswith("NaN"):
        return True
    if good is None and re.fullmatch(PERHAPS, label) and not said.startswith("NaN"):
        return True
    if isinstance(good, int) and label == "descriptor" and not isinstance(good, bool):
        return True
    return any(re.fullmatch(a, text) and re.fullmatch(b, name) and re.fullmatch(c, label) for a, b, c in ACCEPTABLE)


def cases_of(call: Call, seed: int, most: int | None) -> list:
    """(place, name, label, value) of the mutations of a call, a seeded choice of at most so many an argument."""
    found = []
    for place, name, good in call.arguments():
        bad = [(label, value) for label, value in bad_values(good) if not same_kind(label, value, good)]
        bad = [(label, value) for label, value in bad if value is not None or not call.may_be_none(name)]
        choice = random.Random(f"{seed} {call.text} {name}")
        bad = bad if most is None or most >= len(bad) else choice.sample(bad, most)
        found += [(place, name, label, value, good) for label, value in bad]
    return found


def same_kind(label, value, good) -> bool:
    """Whether a wrong value is none for this argument."""
    import geodyn as gd

    if label == "space":
        return isinstance(good, gd.AbstractManifold)
    if label == "swimmer":
        return isinstance(good, gd.AbstractConnection)
    if label == "group":
        return isinstance(good, gd.groups.AbstractLieGroup)
    if label == "ode":
        return isinstance(good, gd.systems.AbstractSystem)
    return False


def work(names: list[str], seed: int, most: int | None, skip: set[str], out) -> None:
    """Writes the outcomes of the cases of these names, one a line."""
    known, seen = setting(), set()
    tempfile.TemporaryDirectory = KeptFolder  # The files of an example are written again.
    values = public()
    os.chdir(tempfile.mkdtemp())
    descriptor = os.open(os.devnull, os.O_RDONLY)
    if descriptor != 3:
        os.dup2(descriptor, 3)
    for name in names:
        say(out, {"name": name, "begin": "example"})
        try:
            calls = calls_of(values[name], known)
        except Exception as error:
            say(out, {"name": name, "kind": "example", "said": f"{type(error).__name__}: {error}"})
            continue
        for call in calls:
            key = call.text.split(".")[-1], tuple(sorted(str(n) for _, n, _ in call.arguments()))
            if call.text == "gd.RESULTS":
                continue
            mine = call.text == name or inspect.isclass(values[name]) or not call.text.startswith("gd.")
            if (
                key in seen
                or not mine
                or not (call.text == name or call.text.split(".")[-1] not in {n.split(".")[-1] for n in values})
            ):
                continue
            seen.add(key)
            for place, parameter, label, value, good in cases_of(call, seed, most):
                case = f"{name} {call.text}({parameter}) {label}"
                if case in skip:
                    continue
                say(out, {"case": case, "begin": True})
                kind, said = outcome(call, place, parameter, label, value, good)
                try:
                    os.fstat(3)
                except OSError:
                    kind, said = "crash", "closed the descriptor 3"
                    os.dup2(descriptor, 3)
                if kind == "taken" or (kind == "hang" and may_be_taken(call.text, parameter, label, good, said)):
                    kind = "acceptable" if may_be_taken(call.text, parameter, label, good, said) else "silent"
                say(out, {"case": case, "kind": kind, "said": said})


def say(out, line) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def outcomes(names: list[str], seed: int, most: int | None, shown: list[str] = ()) -> list[dict]:
    """The outcomes of all cases, computed in processes that may crash; prints those of the kinds that are `shown`."""
    found, skip, left = [], set(), list(names)
    while left:
        task = json.dumps({"names": left, "seed": seed, "most": most, "skip": sorted(skip)})
        with subprocess.Popen(
            [sys.executable, __file__, "--work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        ) as process:
            process.stdin.write(task)
            process.stdin.close()
            now = None
            for text in process.stdout:
                line = json.loads(text)
                if "begin" in line:
                    now = line
                else:
                    found.append(line)
                    if line["kind"] in shown:
                        print(line["kind"], "|", line.get("case", line.get("name")), "|", line["said"], flush=True)
                    skip.add(line.get("case", ""))
                    now = None
                if "name" in line:
                    left = left[left.index(line["name"]) :]
            code = process.wait()
        if code == 0:
            break
        if now is None or "case" not in now:
            found.append({"case": left[0], "kind": "crash", "said": f"in the example, {code}"})
            left = left[1:]
        else:
            found.append({"case": now["case"], "kind": "crash", "said": f"exit status {code}"})
            skip.add(now["case"])
    return found


def chosen(asked: list[str]) -> list[str]:
    """The public names that are asked for, by name or by room."""
    return [name for name in public() if not asked or name in asked or name.rpartition(".")[0] in asked]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=None, help="mutations an argument")
    parser.add_argument("--show", default="raw,silent,hang,crash,unnamed,example")
    parser.add_argument("--json", default=None)
    parser.add_argument("--work", action="store_true")
    options = parser.parse_args()
    if options.work:
        out, sys.stdout = sys.stdout, io.StringIO()
        task = json.loads(sys.stdin.read())
        work(task["names"], task["seed"], task["most"], set(task["skip"]), out)
        return
    found = outcomes(chosen(options.names), options.seed, options.most, options.show.split(","))
    if options.json:
        Path(options.json).write_text("\n".join(json.dumps(line) for line in found))
    print(dict(collections.Counter(line["kind"] for line in found)), len(found))


if __name__ == "__main__":
    main()
