"""The command line: `geodyn` or `python -m geodyn`."""

import argparse
import os
import sys
from importlib.metadata import version


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="geodyn", description="A metric in, motion out.")
    parser.add_argument("--version", action="version", version=f"geodyn {version('geodyn')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="elastic rods in curved space and an optimal swimming stroke, in pictures")
    demo.set_defaults(command="demo")

    simulate = commands.add_parser("simulate", help="a scenario file in, a trajectory out; goes on where it stopped")
    simulate.set_defaults(command="simulate")
    source = simulate.add_mutually_exclusive_group(required=True)
    source.add_argument("scenario", nargs="?", metavar="FILE.toml", help="a scenario file or the name of a shipped one")
    source.add_argument("--list", dest="list_shipped", action="store_true", help="show the shipped scenarios")
    simulate.add_argument("--plot", action="store_true", help="draw the trajectory as well")

    stroke = commands.add_parser("stroke", help="the stroke of least energy for a given net displacement")
    swimmers = stroke.add_subparsers(required=True, metavar="SWIMMER")
    purcell = swimmers.add_parser("purcell", help="three slender links, strokes around the straight shape")
    purcell.set_defaults(command="stroke_purcell")
    purcell.add_argument("--lengths", type=float, nargs=3, default=(1.0, 1.0, 1.0), metavar="L", help="of the links")
    purcell.add_argument("--drag", type=float, default=1.0, help="drag per length along a link (default 1)")
    purcell.add_argument("--drag-ratio", type=float, default=2.0, help="drag across over drag along (default 2)")
    pmpy = swimmers.add_parser("pmpy", help="pushmepullyou: two spheres that exchange volume")
    pmpy.set_defaults(command="stroke_pmpy")
    pmpy.add_argument("--volume", type=float, default=8.377580409572781, help="of both spheres (default 8π/3)")
    pmpy.add_argument("--viscosity", type=float, default=1.0, help="of the fluid (default 1)")
    pmpy.add_argument("--base", type=float, nargs=2, metavar=("l", "v1"), help="distance and first volume")
    for swimmer in (purcell, pmpy):
        swimmer.add_argument(
            "--displacement", type=float, required=True, metavar="D", help="net translation of a stroke"
        )
        swimmer.add_argument("--family", type=float, metavar="D1", help="follow the best strokes from D towards D1")
        swimmer.add_argument("--animate", action="store_true", help="film the swimmer as well")
    purcell.add_argument(
        "--global", dest="everywhere", action="store_true", help="search all shapes for the locally best strokes"
    )
    for command in (demo, simulate, purcell, pmpy):
        command.add_argument("--out", metavar="DIR", default="geodyn-out", help="folder of the results (geodyn-out)")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 for success, 1 for a failed computation, 2 for wrong input, 130 when interrupted."""
    arguments = vars(_parser().parse_args(argv))
    # The metric of a scenario may be a function in a file of the working directory.
    sys.path.insert(0, os.getcwd())
    import jax

    jax.config.update("jax_enable_x64", True)
    from geodyn import commands

    try:
        return getattr(commands, arguments.pop("command"))(**arguments)
    except (ValueError, OSError) as error:
        print(f"geodyn: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"geodyn: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("geodyn: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
