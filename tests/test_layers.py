"""The house: rooms import only rooms to their left, classes are abstract or final, nothing global is touched."""

import ast
import functools
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest
from faults.planting import FAULTS, Fault, planted
from room import files_of, room_with_tests

import geodyn

PACKAGE = Path(geodyn.__file__).parent
# From left to right; FACES are the modules that hand on public names, such as geodyn/rigid.py.
ROOMS = [
    "_version",
    "_foundations",
    "_foundations/files",
    "_engine",
    "_engine/numerics",
    "_integrators/contract",
    "_integrators/step",
    "_integrators/impacts",
    "_integrators/steppers",
    "_integrators/saving",
    "_integrators",
    "_geometry/manifold",
    "_geometry/models",
    "_geometry/geodesics",
    "_geometry/derived",
    "_geometry/groups",
    "_geometry/symmetries",
    "_mechanics/elements",
    "_mechanics/touching",
    "_mechanics/points",
    "_mechanics/rigid",
    "_mechanics/constrained",
    "_mechanics/dissipative",
    "_mechanics/hamiltonian",
    "_locomotion/strokes",
    "_locomotion/connections",
    "_locomotion/motion",
    "_locomotion/swimmers",
    "_control/problem",
    "_control/methods",
    "_control/search",
    "_control/families",
    "_scale",
    "FACES",
    "_plot/style",
    "_plot/scene",
    "_plot/time",
    "_plot/space",
    "_plot/shapes",
    "_plot/pages",
    "plot",
    "_scenarios",
    "_catalogue",
    "_studio",
    "_commands",
    "__main__",
]
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
TREES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in FILES}
FRONT = [file for file in TREES if file.startswith(("_plot/", "_scenarios/")) or file == "__main__.py"]
FOLDERS = sorted({path.parent for path in FILES} - {PACKAGE})


def imports(tree):
    """Every module that a file imports, function bodies included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rank(module):
    """The place in ROOMS of a module such as geodyn._geometry.models.spaces, or of a name in it."""
    parts = module.split(".")[1:]
    folders = ("/".join(parts[:k]) for k in range(len(parts), 0, -1))
    return ROOMS.index(next((folder for folder in folders if folder in ROOMS), "FACES"))


@pytest.mark.parametrize("file", TREES)
def test_imports_point_to_the_left(file):
    own = rank("geodyn." + file.removesuffix(".py").replace("/", "."))
    for name in imports(TREES[file]):
        if name.split(".")[0] == "geodyn":
            assert rank(name) <= own, f"{file} imports {name}, which stands to its right"
        if name.split(".")[0] == "matplotlib":
            assert file.startswith("_plot/"), f"{file} imports {name}; only pictures may"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_folder_is_one_idea(folder):
    """It says which, and has a dozen files at most; no import within a function hides what depends on what."""
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= 12, f"{folder} has {len(files)} files"
    for path in files:
        tree = TREES[str(path.relative_to(PACKAGE))]
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            hidden = [name for name in imports(function) if name.split(".")[0] == "geodyn"]
            assert not hidden, f"{function.name} of {path} imports {hidden}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_room_has_tests(folder):
    """`python tests/room.py` finds them."""
    assert all(path.exists() for path in files_of(folder)) and files_of(folder)


def test_the_tests_of_a_room():
    tests = Path(__file__).parent
    balls = files_of(PACKAGE / "_mechanics/rigid/balls.py")
    assert balls == [tests / "impacts/test_friction.py", tests / "mechanics/test_rigid.py"]
    # It imports nothing from there: it takes gd.groups.Product.
    assert tests / "geometry/test_groups.py" in files_of(PACKAGE / "_geometry/groups/product.py")
    with pytest.raises(ValueError, match="a folder or a file of geodyn, such as geodyn/_mechanics/rigid, not nonsense"):
        files_of(Path("nonsense"))


def test_a_file_without_tests_has_those_of_its_room():
    folder = PACKAGE / "_control/families"
    assert not files_of(folder / "varied.py") and room_with_tests(folder / "varied.py") == folder
    assert room_with_tests(folder) == folder
    # It has none, for which pytest would run all tests.
    command = [sys.executable, str(Path(__file__).parent / "room.py"), str(PACKAGE / "_version.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "_version.py has no tests" in done.stderr and "pytest " not in done.stdout


def test_nothing_heavy_is_imported_early():
    """plot imports matplotlib inside its functions, the command line jax inside its commands; and the motion of a small
    body needs no sparse matrices."""
    for file in FRONT:
        for node in TREES[file].body:
            for name in imports(ast.Module([node], [])) if isinstance(node, ast.Import | ast.ImportFrom) else ():
                assert name.split(".")[0] != "matplotlib", f"{file} imports {name} at its top"
    of_commands = "import sys, geodyn.__main__", ("jax", "matplotlib", "numpy")
    of_motions = "import sys, geodyn as gd; gd.System; gd.integrate; gd.distance", ("matplotlib", "scipy.sparse")
    for load, heavy in (of_commands, of_motions):
        command = f"{load}; print([name for name in {heavy} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n", load


@pytest.mark.parametrize("file", TREES)
def test_what_is_not_public_in_jax_stands_in_one_place(file):
    """Each of these imports is guarded there, and a JAX without it runs plain programs."""
    hidden = ("jax.extend", "jax.experimental", "jax.interpreters", "jax._src", "jaxlib")
    for name in imports(TREES[file]):
        assert file == "_engine/internals.py" or not name.startswith(hidden), f"{file} imports {name}"


def test_classes_are_abstract_or_final():
    """A class that is subclassed says Abstract in its name, and nothing that a base does is overridden."""
    modules = [
        import_module(info.name) for info in walk_packages([str(PACKAGE)], "geodyn.") if "__main__" not in info.name
    ]
    classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    for cls in (c for c in classes if c.__module__.startswith("geodyn")):
        for base in (b for b in cls.__mro__[1:] if b.__module__.startswith("geodyn")):
            assert base.__name__.startswith("Abstract"), f"{cls} subclasses {base}"
            own = {name for name in vars(cls) if not name.startswith("_")} - {f.name for f in fields(cls)}
            done = {name for name, value in vars(base).items() if callable(value)} - base.__abstractmethods__
            assert not own & done, f"{cls} overrides {own & done} of {base}"


def test_texts_are_read_and_written_as_utf_8():
    """Not as the machine is set, which is something else on Windows."""
    for file, tree in TREES.items():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            told = {keyword.arg for keyword in call.keywords}
            assert name not in ("read_text", "write_text") or "encoding" in told, f"{file}:{call.lineno}"


def test_nothing_is_asked_by_hasattr():
    for file, tree in TREES.items():
        assert "hasattr" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}, file


@pytest.mark.parametrize("file", TREES)
def test_nothing_global_is_touched(file):
    """jax.config belongs to the command line and to `cache`; a module holds no array, which would fix the precision."""
    attributes = {ast.unparse(node) for node in ast.walk(TREES[file]) if isinstance(node, ast.Attribute)}
    assert file in ("__main__.py", "_engine/cache.py") or "jax.config.update" not in attributes
    for node in TREES[file].body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            assert "jnp." not in ast.unparse(node.value), f"{file}:{node.lineno} makes an array at import"


def test_public_names_load_and_explain_themselves():
    """Each stands in one place, and what is not there is said."""
    faces = {name: value for name in geodyn.__all__ if isinstance(value := getattr(geodyn, name), ModuleType)}
    places = {"gd": geodyn, **faces}
    found = {place: {id(getattr(module, n)) for n in module.__all__} for place, module in places.items()}
    for place, module in places.items():
        for name in module.__all__:
            assert getattr(module, name).__doc__ or isinstance(getattr(module, name), dict | list | str), (place, name)
        for other in set(places) - {place, "plot"}:
            shared = found[place] & found[other]
            assert place == "plot" or not shared, f"{place} and {other} share names"
    assert geodyn.__all__ == dir(geodyn)
    assert geodyn.__version__
    with pytest.raises(AttributeError, match="distanse"):
        geodyn.distanse  # noqa: B018


def test_every_fault_can_be_planted():
    """What it changes stands once in its place, and the tests that should notice are there."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
    sources = {file: ast.unparse(tree) for file, tree in TREES.items()}
    text = functools.cache(Path.read_text)
    for fault in FAULTS:
        changed = planted(text(PACKAGE / fault.file), fault)
        if fault.file.endswith(".py"):
            ast.parse(changed)
            assert changed != sources[fault.file], fault
        for test in fault.tests.split():
            file, _, name = test.partition("::")
            assert f"def {name}" in text(Path(__file__).parent / file), fault


def test_a_fault_is_planted_whatever_the_names_of_variables():
    """And wherever lines break; but not in two places, nor with a name that the function has no longer."""
    fault = Fault("too much", "some.py", "Space.norm", "sqrt(u @ g @ u)", "sqrt(g @ u)", "")
    head = "from math import sqrt\nclass Space:\n  def norm(self, {0}, g):\n"
    source = head + "    return sqrt(\n      {0} @ g @ {0}){1}"
    for name in "uw":
        assert planted(source.format(name, ""), fault).endswith(f"return sqrt(g @ {name})")
    with pytest.raises(ValueError, match=r"once in Space.norm of some.py, not 2 times; mend the fault 'too much'"):
        planted(source.format("u", " + sqrt(u @ g @ u)"), fault)
    with pytest.raises(ValueError, match=r"once in Space.norm of some.py, not 0 times"):
        planted(source.format("u", ""), fault._replace(old="sqrt(u @ g @ g)"))
    with pytest.raises(ValueError, match=r"some.py has no \{'metric'\} in Space.norm"):
        planted(source.format("u", ""), fault._replace(new="sqrt(metric @ u)"))
    source = head + "    if {0}:\n      return 1"
    assert "if g:" in planted(source.format("w"), fault._replace(old="if u: ...", new="if g: ..."))
