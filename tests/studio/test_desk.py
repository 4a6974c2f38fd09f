"""What the studio computes for its page: the same numbers as the library, checked requests, errors in words."""

import json
import re
import sys
from base64 import b64decode

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.legs import ON_TORUS
from helpers.marks import slow
from scipy.integrate import solve_ivp

import geodyn as gd
from geodyn.__main__ import main
from geodyn._studio import maps
from geodyn._studio.assemble import assembled
from geodyn._studio.bodies import kind_of, made
from geodyn._studio.desk import ASKS, Desk
from geodyn._studio.fields import PROBES, SIZE, curvature_of_grid, grid, group_of, interpolated
from geodyn._studio.maps import read_map
from geodyn._studio.places import places

REGION = {"lower": [-2.0, -2.0], "upper": [2.0, 2.0]}
STROKE = {"mean": [0.1, -0.2], "cosine": [[0.9, 0.1], [0.2, 0.0]], "sine": [[-0.2, 0.0], [0.8, 0.1]]}
PURCELL = {"body": "purcell", "pair": [0, 1], "at": [0.0, 0.0], "stroke": STROKE, "frame": "body", **REGION}
SEARCH = PURCELL | {"goal": "distance", "displacement": [0.1], "harmonics": 4, "bounds": None}


def silent(_):
    pass


@pytest.fixture(scope="module")
def desk():
    return Desk({name: kind_of(name) for name in ("purcell", "nlink", "car", "falling-cat", "symmetric-purcell")})


def array(text, *shape):
    return np.frombuffer(b64decode(text), "<f4").reshape(shape)


def the_stroke(told=STROKE):
    return gd.FourierStroke(**told)


def test_grids_are_those_of_the_library(desk):
    told = desk.answer("fields", PURCELL, silent)
    shapes, swimmer = jnp.asarray(grid(**REGION, size=SIZE)), gd.swimmers.Purcell()
    some = np.arange(0, SIZE**2, 97)
    forms = jax.vmap(lambda r: gd.connection(swimmer, r))(shapes[some])
    np.testing.assert_allclose(array(told["form"], SIZE**2, 3, 2)[some], forms, atol=1e-7)
    F = jax.vmap(lambda r: gd.curvature(swimmer, r))(shapes[some])
    np.testing.assert_allclose(array(told["curvature"], SIZE**2, 3)[some], F[:, :, 0, 1], atol=1e-7)
    G = jax.vmap(lambda r: gd.shape_metric(swimmer, r))(shapes[some])
    np.testing.assert_allclose(array(told["metric"], SIZE**2, 3)[some], G[:, [0, 0, 1], [0, 1, 1]], rtol=1e-6)
    # The error that the page tells of is that of places between the points.
    places = np.random.default_rng(1).uniform(0, SIZE - 1, (PROBES, 2))
    exact = jax.vmap(lambda r: gd.connection(swimmer, r))(jnp.asarray(-2 + 4 * places / (SIZE - 1)))
    near = interpolated(array(told["form"], SIZE**2, 6).astype(float), SIZE, places)
    assert np.abs(near - np.asarray(exact).reshape(PROBES, 6)).max() < 3 * (told["error"] + 1e-7) * np.abs(exact).max()
    assert told["error"] < 1e-6


def test_rounding_is_no_curvature(desk):
    """The cat turns about its spine only: the other components are zero, not noise that fills their pictures."""
    given = PURCELL | {"body": "falling-cat"}
    F = array(desk.answer("fields", given, silent)["curvature"], SIZE**2, 3)
    assert not F[:, :2].any() and F[:, 2].any()


@pytest.mark.long
def test_exact_numbers(desk):
    swimmer, stroke = gd.swimmers.Purcell(), the_stroke()
    told = desk.answer("exact", PURCELL | {"poses": True}, silent)
    g = gd.holonomy(swimmer, stroke)
    np.testing.assert_allclose(told["motion"], swimmer.group.log(g), atol=1e-13)
    np.testing.assert_allclose(told["cost"], gd.cost(swimmer, stroke), rtol=1e-13)
    np.testing.assert_allclose(told["poses"][-1], g, atol=1e-11)
    np.testing.assert_allclose(told["outlines"][0], swimmer.outline(stroke(0.0)), atol=1e-5)
    best = gd.bundles.minimum_perturbation(swimmer, *map(jnp.array, REGION.values()))
    told = desk.answer("exact", PURCELL | {"frame": "minimum perturbation"}, silent)
    np.testing.assert_allclose(told["motion"], swimmer.group.log(gd.holonomy(best, stroke)), atol=1e-9)


@pytest.mark.long
def test_three_shape_variables(desk):
    """A stroke that leaves the slice has the motion of the whole body."""
    stroke = {"mean": [0.1, 0.2, 0.3], "cosine": [[0.5], [0.1], [0.2]], "sine": [[0.0], [0.4], [0.3]]}
    given = PURCELL | {"body": "nlink", "at": [0.1, 0.2, 0.3], "pair": [2, 0], "stroke": stroke}
    body = gd.swimmers.NLink([1.0] * 4)
    told = desk.answer("exact", given, silent)["motion"]
    np.testing.assert_allclose(told, body.group.log(gd.holonomy(body, the_stroke(stroke))), atol=1e-12)
    enclosed = desk.answer("exact", given, silent)["predicted"]
    np.testing.assert_allclose(enclosed, -gd.bundles.flux(body, the_stroke(stroke)), atol=1e-12)
    form = array(desk.answer("fields", given, silent)["form"], SIZE**2, 3, 2)
    r = grid(**REGION, size=SIZE)[100]
    np.testing.assert_allclose(form[100], gd.connection(body, [r[1], 0.2, r[0]])[:, [2, 0]], atol=1e-7)


@pytest.mark.long
def test_the_area_of_a_stroke_that_leaves_the_slice(desk):
    """In the frame that the stroke disturbs least its area comes nearer to the net motion, which stays in the body
    frame. A stroke that encloses nothing has no such frame, and none is shown where all lies in the slice."""
    stroke = {"mean": [0.1, 0.2, 0.3], "cosine": [[0.6], [-0.3], [-0.3]], "sine": [[0.0], [0.5], [-0.5]]}
    given = PURCELL | {"body": "nlink", "at": [0.1, 0.2, 0.3], "pair": [2, 0], "stroke": stroke}
    told = {frame: desk.answer("exact", given | {"frame": frame}, silent) for frame in ("body", "minimum perturbation")}
    assert told["body"]["motion"] == told["minimum perturbation"]["motion"]
    size = np.linalg.norm(told["body"]["motion"])
    errors = {name: np.linalg.norm(np.subtract(t["predicted"], t["motion"])) / size for name, t in told.items()}
    assert errors["body"] > 0.1
    assert errors["minimum perturbation"] < 0.01
    line = stroke | {"sine": [[0.0], [0.0], [0.0]]}
    flat = desk.answer("exact", given | {"stroke": line, "frame": "minimum perturbation"}, silent)
    assert flat["predicted"] is None
    inside = stroke | {"cosine": [[0.5], [0.0], [0.2]], "sine": [[0.0], [0.0], [0.3]]}
    assert desk.answer("exact", given | {"stroke": inside}, silent)["predicted"] is None
    shifted = inside | {"mean": [0.1, 0.25, 0.3]}
    assert desk.answer("exact", given | {"stroke": shifted}, silent)["predicted"] is not None


@pytest.mark.long
def test_optimum_and_its_evidence(desk):
    said = []
    found = desk.answer("optimise", SEARCH, said.append)
    swimmer, stroke = gd.swimmers.Purcell(), the_stroke(found["stroke"])
    assert found["converged"] and [s["count"] for s in said] == list(range(1, found["iterations"] + 1))
    np.testing.assert_allclose(gd.cost(swimmer, stroke), found["cost"], rtol=1e-9)
    moved = swimmer.group.log(gd.holonomy(swimmer, stroke))
    np.testing.assert_allclose([jnp.linalg.norm(moved[:2]), moved[2]], [0.1, 0.0], atol=1e-7)
    # The energy of the literature for this displacement, with four harmonics (PEERS: 3.89371688872341 with many).
    assert 3.8937168 < found["cost"] < 3.897
    best = eval(found["python"], {"gd": gd, "body": swimmer, "stroke": the_stroke()})
    np.testing.assert_allclose(best.cost, found["cost"], rtol=1e-9)
    sentences = desk.answer("certificate", {}, silent)["sentences"]
    assert len(sentences) == 4 and "It is a minimum" in sentences[1]["text"] and all(s["good"] for s in sentences[:2])


def test_cancelled_searches_keep_what_they_have(desk):
    def cancel(told):
        if told["count"] == 2:
            desk.cancelled.set()

    found = desk.answer("optimise", SEARCH, cancel)
    assert not found["converged"] and found["iterations"] == 2 and np.isfinite(found["cost"])
    assert not desk.answer("certificate", {}, silent)["sentences"][0]["good"]
    assert desk.answer("optimise", SEARCH, silent)["converged"]  # the next is not cancelled


@pytest.mark.long
def test_family(desk):
    """From an eighth of the displacement to the largest, through the best efficiency."""
    family = desk.answer("family", SEARCH | {"displacement": [0.2], "harmonics": 8}, silent)
    size = np.array([s["displacement"] for s in family["strokes"]])
    np.testing.assert_allclose([size[0], size[family["here"]]], [0.025, 0.2])
    assert (np.diff(size) > -1e-9).all() and "no larger displacement" in family["end"]
    efficiency = np.array([s["efficiency"] for s in family["strokes"]])
    assert 0.0123 < efficiency.max() < 0.0125  # sysplotter's "MaxEfficiency" has 0.01231
    stroke = the_stroke(family["strokes"][3]["stroke"])
    moved = gd.swimmers.Purcell().group.log(gd.holonomy(gd.swimmers.Purcell(), stroke))
    np.testing.assert_allclose(jnp.linalg.norm(moved[:2]), size[3], rtol=1e-5)


@pytest.mark.long
def test_turns_and_bounds(desk):
    """A car turns on the spot by steering and rolling, within the box of shapes."""
    car = PURCELL | {"body": "car", "lower": [-3.0, -1.2], "upper": [3.0, 1.2], "goal": "turn", "displacement": [0.3]}
    wide = [[-1.0, -1.0], [1.0, 1.0]]
    found = desk.answer("optimise", car | {"harmonics": 6, "bounds": wide}, silent)
    stroke, body = the_stroke(found["stroke"]), gd.swimmers.KinematicCar()
    np.testing.assert_allclose(body.group.log(gd.holonomy(body, stroke))[2], 0.3, atol=1e-6)
    r = jax.vmap(stroke)(jnp.arange(36) / 36)
    assert jnp.abs(r).max() < 1.01 and "Heading" in found["python"] and "bounds" in found["python"]
    tight = SEARCH | {"displacement": [0.2], "harmonics": 8, "bounds": [[-1.9, -1.9], [1.1, 1.1]]}
    assert desk.answer("optimise", tight, silent)["converged"]
    sentences = desk.answer("certificate", {}, silent)["sentences"]
    assert sentences[0]["good"] and "as far and without turning" in sentences[1]["text"]
    assert "runs along the bounds" in sentences[-1]["text"] and not any("harmonics" in s["text"] for s in sentences)


@pytest.mark.long
def test_a_stroke_that_begins_at_a_shape(desk):
    """Such a stroke has a corner there: the page draws it by harmonics, and says by how much it moves otherwise."""
    given = {"mean": [0.5, 0.0], "cosine": [[-0.5], [0.0]], "sine": [[0.0], [0.5]]}
    car = PURCELL | {"body": "car", "lower": [-3.0, -1.2], "upper": [3.0, 1.2], "goal": "turn", "displacement": [-0.1]}
    found = desk.answer("optimise", car | {"stroke": given, "harmonics": 6}, silent)
    body, stroke = gd.swimmers.KinematicCar(), the_stroke(found["stroke"])
    off = abs(float(body.group.log(gd.holonomy(body, stroke))[2]) + 0.1) / 0.1
    assert found["converged"] and 1e-9 < found["drawn"] < 1e-6
    np.testing.assert_allclose(off, found["drawn"], rtol=0.1)


WRONG = [
    ({"ask": "exec"}, "ask must be one of body, fields"),
    ({"body": "os:system"}, "body must be one of purcell"),
    ({"body": ["purcell"]}, "body must be one of"),
    ({"parameters": {"lengths": "__import__('os')"}}, "lengths must be numbers"),
    ({"parameters": {"lengths": [1.0, 2.0]}}, r"lengths must have the shape \[3\], got \[2\]"),
    ({"parameters": {"lengths": [1.0, -1.0, 1.0]}}, "lengths must be positive"),
    ({"parameters": {"colour": 1.0}}, "a parameter must be one of lengths"),
    ({"parameters": [1]}, "parameters must be names with values"),
    ({"pair": [0, 2]}, "pair must be two different shape variables of 2"),
    ({"pair": [0, 0]}, "pair must be two different"),
    ({"at": [0.0, float("nan")]}, "at must be finite"),
    ({"at": [0.0, 0.0, 0.0]}, "shape"),
    ({"lower": [1.0, 1.0], "upper": [0.0, 2.0]}, "lower must be less than upper"),
    ({"frame": "mine"}, "frame must be one of body, minimum perturbation"),
    ({"ask": "exact", "stroke": {"mean": [0, 0]}}, "cosine of the stroke must"),
    ({"ask": "exact", "stroke": STROKE | {"cosine": [[1e300], [0]]}}, "must be finite"),
    ({"ask": "optimise", "goal": "all"}, "goal must be one of distance, whole"),
    ({"ask": "optimise", "displacement": [0.1, 0.1]}, r"displacement must have the shape \[1\]"),
    ({"ask": "optimise", "harmonics": 2.5}, "harmonics must be a whole number"),
    ({"ask": "optimise", "harmonics": 10**6}, "harmonics must be a number from 1 to 32"),
    ({"ask": "optimise", "bounds": [[0, 0]]}, r"bounds must have the shape \[2, 2\]"),
    ({"ask": "page"}, "state must be"),
    ({"ask": "measure", "name": "a.csv", "text": "1,2\n3,4"}, "column"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said[:24] for _, said in WRONG])
def test_wrong_requests(desk, wrong, said):
    ask = wrong.get("ask", "fields")
    given = {key: value for key, value in (SEARCH | wrong).items() if key != "ask"}
    with pytest.raises(ValueError, match=said):
        desk.answer(ask, given, silent)


def test_a_body_with_springs_has_no_pace_here():
    desk = Desk({"passive-links": kind_of("passive-links")})
    given = SEARCH | {"body": "passive-links", "parameters": {}}
    with pytest.raises(ValueError, match=r"springs move some .* `geodyn stroke passive-links`"):
        desk.answer("optimise", given, silent)


def test_certificate_needs_an_optimum():
    with pytest.raises(ValueError, match="optimise first"):
        Desk({}).answer("certificate", {}, silent)
    assert set(ASKS) == {name for name in vars(Desk) if not name.startswith("_")} - {"answer", "alone"}


OWN = """
import geodyn as gd
import jax.numpy as jnp

WAVES = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
snake = gd.swimmers.Modes(gd.swimmers.NLink([1.0] * 4), WAVES)

def eel(length=1.0, drag_ratio=2.0):
    return gd.swimmers.Modes(gd.swimmers.NLink([length] * 4, drag_ratio=drag_ratio), WAVES)

class Slider(gd.AbstractSwimmer):
    size: float = 1.0
    group: gd.groups.Translation = gd.groups.Translation(1)
    def dissipation(self, r, xi, rdot):
        return xi[0] ** 2 + self.size * (xi[0] + r[1] * rdot[0]) ** 2 + rdot @ rdot

def unknown(length):
    return eel(length)

def fixed():
    return snake

def nothing():
    return 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_eel.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_eel", raising=False)
    return Desk({name: kind_of(f"my_eel:{name}") for name in ("snake", "eel", "Slider", "unknown", "fixed", "nothing")})


def test_a_body_is_made_once(own):
    """A metric of one's own is compiled for the body that has it: as long as no parameter changes that is one body."""
    made_of = lambda **given: own._made({"body": "eel", "parameters": given})[1]  # noqa: E731
    first = made_of(length=2.0)
    assert made_of(length=2.0) is first and made_of(length=1.5) is not first
    assert own._made({"body": "snake"})[1] is not made_of()
    own.kinds["eel"] = kind_of("my_eel:snake")
    assert made_of() is own._made({"body": "snake"})[1]


def test_bodies_of_ones_own(own):
    """A body, a function that makes one, a class: with sliders for the defaults, and the Python that makes it."""
    told = own.answer("body", {"body": "eel", "parameters": {"length": 2.0}}, silent)
    assert told["imports"] == "from my_eel import eel" and told["python"] == "eel(length=2.0, drag_ratio=2.0)"
    assert [p["name"] for p in told["parameters"]] == ["length", "drag_ratio"] and told["variables"] == [
        "mode 1",
        "mode 2",
    ]
    assert own.answer("body", {"body": "snake"}, silent)["python"] == "snake"
    assert own.answer("body", {"body": "fixed"}, silent)["python"] == "fixed()"
    slider = own.answer("body", {"body": "Slider"}, silent)
    assert (
        slider["python"] == "Slider(size=1.0)"
        and slider["goals"] == ["distance", "whole"]
        and slider["drawing"] == "axes"
    )
    waves = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    body = gd.swimmers.Modes(gd.swimmers.NLink([2.0] * 4), waves)
    given = PURCELL | {"body": "eel", "parameters": {"length": 2.0}}
    expected = body.group.log(gd.holonomy(body, the_stroke()))
    np.testing.assert_allclose(own.answer("exact", given, silent)["motion"], expected, atol=1e-12)
    with pytest.raises(ValueError, match="'length' of unknown has no default: give it one"):
        own.answer("body", {"body": "unknown"}, silent)
    with pytest.raises(ValueError, match="nothing makes int; wanted a body with a connection"):
        own.answer("body", {"body": "nothing"}, silent)


def test_measured_data_are_a_body(desk):
    """A(r) of Purcell's swimmer in a file: the fitted body moves as the true one, and the error says how well."""
    swimmer, rng = gd.swimmers.Purcell(), np.random.default_rng(0)
    shapes = rng.uniform(-1.2, 1.2, (400, 2))
    forms = np.asarray(jax.vmap(lambda r: gd.connection(swimmer, r))(jnp.asarray(shapes)))
    names = ["r1", "r2", *(f"A{x}{i}" for x in ("x", "y", "theta") for i in (1, 2))]
    rows = [",".join(names), *(",".join(map(repr, row)) for row in np.hstack([shapes, forms.reshape(400, 6)]).tolist())]
    told = desk.answer("measure", {"name": "fish.csv", "text": "\n".join(rows)}, silent)
    assert told["fitted"] < 1e-3 and told["python"] == "gd.bundles.read_connection('fish.csv')" and not told["metric"]
    stroke = {"mean": [0.0, 0.0], "cosine": [[0.8], [0.0]], "sine": [[0.0], [0.8]]}
    given = PURCELL | {"body": "fish.csv", "stroke": stroke}
    moved = desk.answer("exact", given, silent)["motion"]
    np.testing.assert_allclose(moved, swimmer.group.log(gd.holonomy(swimmer, the_stroke(stroke))), atol=1e-4)
    with pytest.raises(ValueError, match=r"^bad\.csv: its columns are a, b; want"):
        desk.answer("measure", {"name": "bad.csv", "text": "a,b\n1,2\n3,4\n"}, silent)


@pytest.mark.parametrize("name", slow("purcell", quick="symmetric-purcell"))
def test_exported_page_is_one_small_file(name, tmp_path, capsys):
    """Below a megabyte, and nothing in it comes from anywhere else."""
    file = tmp_path / "page.html"
    assert main(["studio", name, "--export", str(file)]) == 0
    assert "works without a server" in capsys.readouterr().out
    html = file.read_text(encoding="utf-8")
    assert len(html.encode()) < 1_000_000
    outside = re.sub(r'<script id="data".*?</script>', "", html, flags=re.S)
    assert not re.search(
        r"https?://(?!www\.w3\.org)|<link(?! rel=\"icon\")|@import|url\(h|\ssrc=", outside.replace("`http://", "")
    )
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', html, re.S)[1])
    assert data["alone"] and set(data["fields"]) == {"body", "minimum perturbation"}


def test_bodies_in_the_eight_geometries():
    """Of groups of matrices by their generators, of others by the brackets."""
    kind = kind_of("two-legged")
    for name in ("nil", "s2xe"):
        body, python = made(kind, {"space": name})
        told = group_of(body.group)
        assert len(told["generators"]) == 4 and "gd.spaces.THURSTON" in python
    group = made(kind, {"space": "sl2"})[0].group
    told = group_of(group)
    assert "generators" not in told
    a, b = np.array([0.3, -0.2, 0.5, 0.1]), np.array([0.7, 0.4, -0.1, 0.2])
    np.testing.assert_allclose(np.einsum("kij,i,j->k", told["structure"], a, b), group.bracket(a, b), atol=1e-12)


LEGS = (
    ON_TORUS
    + """
def in_sol():
    found = gd.symmetries(gd.spaces.Sol(), [0.0, 0.0, 0.0])
    return gd.swimmers.TwoLegged(found.space)

def three_lengths():
    def places(r):
        body = jnp.array([0.0, 1.0, 0.0])
        feet = [jnp.array([-0.3, 0.2, 0.3]), r[0] * jnp.eye(3)[0], jnp.stack([0 * r[0], 0.5 * r[1], r[2]])]
        return jnp.stack([body, *(body + foot for foot in feet)])

    return gd.swimmers.PointMasses(gd.spaces.SL2(), [1.0, 1.0, 1.0, 1.0], places)
"""
)
WALK = {"mean": [0.8, 0.8], "cosine": [[0.3], [0.0]], "sine": [[0.0], [0.3]]}
LEGGED = {"pair": [0, 1], "at": [0.8, 0.8], "lower": [0.3, 0.1], "upper": [1.4, 1.4], "frame": "body", "stroke": WALK}


@pytest.fixture
def legs(tmp_path, monkeypatch):
    (tmp_path / "my_legs.py").write_text(LEGS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_legs", raising=False)
    return Desk({name: kind_of(f"my_legs:{name}") for name in ("on_torus", "in_sol", "three_lengths")})


def turned_on_a_torus(ring=2.0, tube=1.0, height=0.8):
    """By how far two legs of masses 1 go around a torus, as a length where they began: the momentum about its axis
    is Σ ρ² φ' with the distance ρ from the axis. The geodesics to the feet are those of scipy."""

    def feet(leg, angle):  # (φ, height angle) of both
        ends = []
        for side in (1.0, -1.0):

            def rate(_, y):
                _, v, du, dv = y
                rho = ring + tube * np.cos(v)
                return [du, dv, 2 * tube * np.sin(v) / rho * du * dv, -rho * np.sin(v) / tube * du**2]

            far = ring + tube * np.cos(height)
            start = [0.0, height, leg * np.cos(angle) / far, side * leg * np.sin(angle) / tube]
            ends.append(solve_ivp(rate, (0.0, 1.0), start, rtol=1e-11, atol=1e-12).y[:2, -1])
        return np.array(ends)

    count, eps = 64, 1e-4
    far = ring + tube * np.cos(height)
    total = 0.0
    for t in np.arange(count) / count:  # the trapezoidal rule around a stroke is exact to rounding soon
        shape = lambda t: (0.8 + 0.3 * np.cos(2 * np.pi * t), 0.8 + 0.3 * np.sin(2 * np.pi * t))  # noqa: E731
        rho2 = (ring + tube * np.cos(feet(*shape(t))[:, 1])) ** 2
        rates = (feet(*shape(t + eps))[:, 0] - feet(*shape(t - eps))[:, 0]) / (2 * eps)
        total -= rho2 @ rates / (far**2 + rho2.sum()) / count
    return far * total


@pytest.mark.long
def test_a_body_on_a_torus(legs):
    """Its one symmetry was found: the displacement is that of its momentum, which scipy has, and each picture is the
    body at its shape, turned about the axis so far."""
    about = legs.answer("body", {"body": "on_torus"}, silent)
    assert about["drawing"] == "places" and about["frames"] == ["body"] and about["start"] == [0.8, 0.8]
    given = LEGGED | {"body": "on_torus"}
    (moved,) = legs.answer("exact", given, silent)["motion"]
    expected = turned_on_a_torus()
    assert abs(expected) > 1e-3  # the basis may have either sign
    np.testing.assert_allclose(abs(moved), abs(expected), rtol=1e-6)
    told = legs.answer("places", given, silent)
    lines = array_of(told["lines"], told["scale"]).reshape(-1, *told["shape"], 2)
    way = array_of(told["way"], told["scale"]).reshape(-1, 2)
    assert told["frames"] * 3 + 1 == len(lines) == len(way) and not told["missing"] and len(told["behind"]) == 50
    far = 2 + np.cos(0.8)
    angle = expected / far * np.arange(4)
    for k, turn in enumerate(angle):
        # Seen from the side of the body, 30 degrees above the plane of the torus.
        x, y, z = far * np.cos(turn), far * np.sin(turn), np.sin(0.8)
        seen = [y, z * np.cos(np.pi / 6) - x * np.sin(np.pi / 6)]
        np.testing.assert_allclose(way[k * told["frames"]], seen, atol=2e-4)
        np.testing.assert_allclose(lines[k * told["frames"], 0, 0], seen, atol=2e-4)
    with pytest.raises(ValueError, match="minimum-perturbation frame is that of matrices"):
        legs.answer("fields", given | {"frame": "minimum perturbation"}, silent)


@pytest.mark.long
def test_three_shape_variables_in_sl2(legs):
    """A stroke that leaves the slice has its net motion, but no area integral; masses are dots."""
    stroke = {"mean": [0.6, 0.6, 0.5], "cosine": [[0.2], [0.0], [0.1]], "sine": [[0.0], [0.2], [0.1]]}
    given = LEGGED | {"body": "three_lengths", "at": [0.6, 0.6, 0.5], "stroke": stroke}
    told = legs.answer("exact", given, silent)
    body = made(legs.kinds["three_lengths"], {})[0]
    moved = body.group.log(gd.holonomy(body, the_stroke(stroke)))
    np.testing.assert_allclose(told["motion"], moved, atol=1e-10)
    assert told["predicted"] is None
    assert legs.answer("places", given, silent)["shape"] == [4, 1]


class Drifter(gd.AbstractSwimmer):
    """One that does not say how it looks."""

    group: gd.groups.FrameGroup = gd.groups.isometry_group(gd.spaces.SL2())

    def dissipation(self, r, xi, rdot):
        return xi @ xi + 2 * xi[0] * r[1] * rdot[0] + 3 * rdot @ rdot


@pytest.mark.long
def test_places_of_a_frame():
    """A body without a picture is the cross of its frame, in the model of the space: a line along each vector."""
    body = Drifter()
    stroke = the_stroke()
    told = places(body, stroke)
    assert told["shape"] == [3, 2] and not told["arrows"] and "Poincaré disc × line" in told["title"]
    lines = array_of(told["lines"], told["scale"]).reshape(-1, 3, 2, 2)
    way = array_of(told["way"], told["scale"]).reshape(-1, 2)
    np.testing.assert_allclose(lines[:, :, 0], np.broadcast_to(way[:, None], lines[:, :, 0].shape), atol=1e-4)
    assert np.linalg.norm(way[told["frames"]] - way[0]) > 0.01
    with pytest.raises(ValueError, match="no picture in the plane"):
        gd.plot.check_swimmer(body)


def array_of(text, scale):
    return np.frombuffer(b64decode(text), "<i2") / 32767 * scale


def test_curvature_of_a_grid():
    """Of A₁ = (x y², sin x) and A₂ = (x³, y): F = ∂₁A₂ − ∂₂A₁, since translations commute. One singular shape spoils
    only what is interpolated by its means."""
    size = 21
    shapes = grid([0.0, 0.5], [1.0, 1.5], size)
    x, y = shapes.T
    form = np.stack([np.stack([x * y**2, x**3], -1), np.stack([np.sin(x), y], -1)], 1)
    step = np.array([0.05, 0.05])
    found = curvature_of_grid(gd.groups.Translation(2), form, step)
    np.testing.assert_allclose(found, np.stack([3 * x**2 - 2 * x * y, 0 * x], -1), atol=1e-10)
    form[-1] = np.nan
    lost = ~np.isfinite(curvature_of_grid(gd.groups.Translation(2), form, step)).all(axis=1)
    assert lost[-1] and lost.sum() == 7  # the nearest four in its row and in its column


@pytest.mark.long
def test_grids_in_sol(legs):
    """With the group that was found: A, F and G of the coarse grid are those of the library; so is the displacement,
    which the known group of matrices has as well."""
    given = LEGGED | {"body": "in_sol"}
    told = legs.answer("fields", given, silent)
    size = told["size"]
    known = gd.swimmers.TwoLegged(gd.spaces.Sol())
    shapes = grid(given["lower"], given["upper"], size)
    some = np.array([0, 17, 5 * size, size**2 // 2, size**2 - 1])
    found = made(legs.kinds["in_sol"], {})[0]
    form, curvature = array(told["form"], size**2, 3, 2), array(told["curvature"], size**2, 3)
    for i in some:
        r = jnp.asarray(shapes[i])
        np.testing.assert_allclose(form[i], gd.connection(found, r), atol=1e-6)
        np.testing.assert_allclose(curvature[i], gd.curvature(found, r)[:, 0, 1], atol=2e-4 * np.abs(curvature).max())
        G = gd.shape_metric(known, r)
        np.testing.assert_allclose(array(told["metric"], size**2, 3)[i], [G[0, 0], G[0, 1], G[1, 1]], rtol=1e-5)
    assert told["error"] < 1e-6
    moved = legs.answer("exact", given, silent)["motion"]
    same = known.group.log(gd.holonomy(known, the_stroke(WALK)))
    np.testing.assert_allclose(np.linalg.norm(moved), np.linalg.norm(same), rtol=1e-8)


PLANES = """
import equinox as eqx
import geodyn as gd
import jax.numpy as jnp

class Planes(gd.AbstractConnection):
    size: float = eqx.field(default=1.0, converter=jnp.asarray)
    group: gd.groups.Translation = gd.groups.Translation(2)

    @property
    def first_shape(self):
        return jnp.zeros(4)

    def form(self, r):
        area = self.size * jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])

class Halves(Planes):
    def form(self, r):
        return super().form(r) / 2

def planes(size=1.0):
    return Planes(size)

def halves():
    return Halves()
"""
PLANE = {"body": "planes", "pair": [0, 1], "at": [0.0] * 4, "lower": [-1, -1], "upper": [1, 1], "frame": "body"}


@pytest.fixture(scope="module")
def planes(tmp_path_factory):
    """(The map of a body whose displacement along x is an area of its first two variables, along y one of the others,
    each at the cost 4π; its file; a desk that knows it; the kinds of bodies)."""
    folder = tmp_path_factory.mktemp("planes")
    (folder / "my_planes.py").write_text(PLANES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        kinds = {name: kind_of(f"my_planes:{name}") for name in ("planes", "halves")}
        moving = gd.bundles.KaluzaKlein(made(kinds["planes"], {})[0])
        axes = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2, 0.4], "components": (0, 1)}
        settings = {"method": gd.Direct(harmonics=1, steps=4), "region": (-np.ones(4), np.ones(4)), "starts": 4}
        found = gd.stroke_map(moving, **axes, **settings)
        found.save(folder / "map.npz")
        mapped = read_map(str(folder / "map.npz"), moving, "planes(size=1.0)")
        yield found, folder / "map.npz", Desk(kinds, {("my_planes:planes", "planes(size=1.0)"): mapped}), kinds


@pytest.mark.long
def test_the_page_is_told_a_map(planes):
    """All that it needs to predict a stroke: what stands in the map, and the Fourier series of its coefficients."""
    found, _, desk, _ = planes
    told = desk.answer("body", {"body": "planes"}, silent)["map"]
    assert told["names"] == ["x", "y"] and told["units"] == ["", ""] and told["turn"] == [0.1, 0.2, 0.4]
    assert desk.answer("body", {"body": "planes", "parameters": {"size": 2.0}}, silent)["map"] is None
    count = found.best.coefficients.shape[-1]
    table = np.frombuffer(b64decode(told["table"]), "<f8").reshape(2, 3, 10 + 3 * count)
    basis = np.frombuffer(b64decode(told["basis"]), "<f8").reshape(-1, count)
    for i, j in np.ndindex(2, 3):
        row, stroke = table[i, j], found.at(i, j)
        np.testing.assert_array_equal(row[:3], [found.cost[i, j], found.efficiency[i, j], found.amplitude[i, j]])
        np.testing.assert_array_equal(
            row[3:10], [found.branch[i, j], *found.multiplier[i, j], *found.best.hessian[i, j].ravel()]
        )
        np.testing.assert_array_equal(row[-2 * count :], found.best.slopes[i, j].ravel())
        mean, cosine, sine = np.split(basis @ row[10 : 10 + count], [4, 4 + 4 * told["harmonics"]])
        series = gd.FourierStroke(mean, cosine.reshape(4, -1), sine.reshape(4, -1))
        for t in (0.0, 0.15, 0.6):
            np.testing.assert_allclose(series(t), stroke(t), atol=1e-9)


@pytest.mark.long
def test_the_best_stroke_at_a_place_of_a_map(planes):
    """Between the points, with its certificate, and the Python that gives it."""
    found, _, desk, _ = planes
    best = desk.answer("demand", PLANE | {"demand": [0.75, 0.15]}, silent)
    np.testing.assert_allclose(best["cost"], 4 * np.pi * 0.9, rtol=1e-9)
    assert best["converged"] and len(best["multiplier"]) == 2
    body = made(desk.kinds["planes"], {})[0]
    np.testing.assert_allclose(body.group.log(gd.holonomy(body, the_stroke(best["stroke"]))), [0.75, 0.15], atol=1e-9)
    again = eval(best["python"], {"gd": gd, "body": found.swimmer})
    np.testing.assert_allclose(again.cost, best["cost"], rtol=1e-12)
    said = desk.answer("certificate", {}, silent)["sentences"]
    assert said[0]["good"] and "by the same two components costs more" in said[1]["text"]
    with pytest.raises(ValueError, match=r"displacement must lie on the grid, from 0\.5 to 1, got 2"):
        desk.answer("demand", PLANE | {"demand": [2.0, 0.15]}, silent)
    with pytest.raises(ValueError, match=r"demand must have the shape \[2\]"):
        desk.answer("demand", PLANE | {"demand": [0.75]}, silent)
    with pytest.raises(ValueError, match=r"there is no map of planes\(size=2.0\): make one first"):
        desk.answer("demand", PLANE | {"parameters": {"size": 2.0}, "demand": [0.75, 0.15]}, silent)


@pytest.mark.long
def test_a_map_of_another_body_is_refused(planes, tmp_path):
    """By its numbers; or, where these are the same, by what one of its strokes costs."""
    _, file, desk, kinds = planes
    larger = gd.bundles.KaluzaKlein(made(kinds["planes"], {"size": 2.0})[0])
    with pytest.raises(
        ValueError, match=r"size.* 1.*2.* must be one of the body that the page begins with, planes\(size=2"
    ):
        read_map(str(file), larger, "planes(size=2.0)")
    half = gd.bundles.KaluzaKlein(made(kinds["halves"], {})[0])
    with pytest.raises(
        ValueError, match=r"another body: its stroke at the point \(0, 0\) has \(x, y, cost\) .* module:name"
    ):
        read_map(str(file), half, "halves()")
    (tmp_path / "no.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"no\.npz"):
        read_map(str(tmp_path / "no.npz"), half, "halves()")
    circle = {"mean": [0.0] * 4, "cosine": [[0.5], [0.0], [0.0], [0.0]], "sine": [[0.0], [0.5], [0.0], [0.0]]}
    with pytest.raises(ValueError, match="length of a step and a turn, which only bodies that move in a plane have"):
        desk.answer("map", PLANE | {"stroke": circle, "bounds": None}, silent)


@pytest.mark.long
def test_whole_turns_of_hinges():
    """A search may wind them up; half of a hinge is another shape after a turn of it."""
    mean = np.array([0.3, 0.2 - 4 * np.pi])
    np.testing.assert_allclose(maps.whole_turns(gd.swimmers.Purcell(), mean), [0.0, -4 * np.pi])
    halved = gd.swimmers.Modes(gd.swimmers.Purcell(), [[1.0, 0.0], [0.0, 0.25]])
    np.testing.assert_allclose(maps.whole_turns(halved, mean + np.array([2 * np.pi, 0.0])), [2 * np.pi, 0.0])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_map_is_made_for_the_page(desk, monkeypatch):
    """Around the displacement and the turn of the stroke, and as the Python of its best strokes makes it; a cancelled
    one keeps what it has."""
    monkeypatch.setattr(maps, "POINTS", 3)
    monkeypatch.setattr(maps, "STARTS", 4)
    desk = Desk(desk.kinds)
    said = []
    stroke = {"mean": [0.0, 0.0], "cosine": [[0.7], [0.2]], "sine": [[-0.2], [0.6]]}
    given = PURCELL | {"stroke": stroke, "bounds": [[-2.0, -2.0], [2.0, 2.0]]}
    made_map = desk.answer("map", given, said.append)
    swimmer = gd.swimmers.Purcell()
    motion = swimmer.group.log(gd.holonomy(swimmer, the_stroke(stroke)))
    told = made_map["map"]
    far, turn = np.linalg.norm(motion[:2]), motion[2]
    np.testing.assert_allclose(told["displacement"], [far / 2, far, 3 * far / 2], rtol=1e-3)
    # The straight body of length 3: its drag is 3 along x, 6 along y, and 2 · 3³ / 12 = 4.5 against a turn.
    np.testing.assert_allclose(told["turn"], [turn - far, turn, turn + far], atol=1e-3)
    assert told["names"] == ["displacement", "turn"] and told["units"] == ["", "rad"]
    assert said[-1]["what"] == "points" and said[-1]["count"] == 9 and made_map["end"] == gd.RESULTS.successful.message
    ((_, python),) = desk.maps
    mapped = desk.maps["purcell", python]
    shapes = jax.vmap(mapped.found.at(2, 1))(jnp.arange(64) / 64)
    assert mapped.found.task.bounded == (0, 1) and jnp.abs(shapes).max() < 2.0 + 1e-6
    again = eval(mapped.python, {"gd": gd, "body": swimmer})
    np.testing.assert_array_equal(again.cost, mapped.found.cost)
    assert desk.answer("body", {"body": "purcell"}, silent)["map"] == told
    part = desk.answer("map", given, lambda _: desk.cancelled.set())
    assert part["end"] == gd.RESULTS.interrupted.message
    still = stroke | {"cosine": [[0.0], [0.0]], "sine": [[0.0], [0.0]]}
    with pytest.raises(ValueError, match="this one has none: draw another"):
        desk.answer("map", given | {"stroke": still}, silent)


@pytest.mark.long
def test_a_page_with_a_map(planes, tmp_path, capsys, monkeypatch):
    """The exported page has the map; what cannot be read ends the command, and says what to do."""
    _, file, _, _ = planes
    page = tmp_path / "page.html"
    assert main(["studio", "my_planes:planes", "--map", str(file), "--export", str(page)]) == 0
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1])
    assert data["body"]["map"]["displacement"] == [0.5, 1.0]
    assert main(["studio", "purcell", "--map", str(file), "--export", str(page)]) == 2
    assert "one of the body that the page begins with, gd.swimmers.Purcell(" in capsys.readouterr().err
    assert main(["studio", "purcell", "--map", str(tmp_path / "no.npz")]) == 2
    assert "no.npz" in capsys.readouterr().err


def test_data_cannot_leave_its_place():
    """Whatever a file of measurements is called, no script comes of it."""
    name = "</script><!--<script>alert(1)</script>__SCRIPT__"
    html = assembled({"name": name}, "once")
    assert html.count("<script") == 2 and "<!--" not in html
    assert json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', html, re.S)[1]) == {"name": name}


def test_assets_are_small():
    assert len(assembled({})) < 120_000


def test_command_line_errors(capsys, tmp_path):
    assert main(["studio", "beanie", "--export", str(tmp_path / "x.html")]) == 2
    assert "one shape variable" in capsys.readouterr().err
    assert main(["studio", "purcel"]) == 2
    assert "did you mean 'purcell'?" in capsys.readouterr().err
    for name in ("dry-links", "geodyn.swimmers:PowerLawLinks"):
        assert main(["studio", name]) == 2
        assert "gd.plot.small_loops(body, component, r)" in capsys.readouterr().err
