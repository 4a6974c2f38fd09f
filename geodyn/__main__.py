"""The command line: `geodyn` or `python -m geodyn`."""

import argparse
import contextlib
import os
import signal
import sys
import threading
from typing import Any

from geodyn._version import __version__

PATIENCE = 30  # Seconds until a process that does not answer is given up.
UNREAD = 141  # The exit status where nobody reads the output any more: that of programs which SIGPIPE ends.


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="geodyn", description="A metric in, motion out.")
    parser.add_argument("--version", action="version", version=f"geodyn {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="elastic rods in curved space and an optimal swimming stroke, in pictures")
    demo.set_defaults(command="demo")
    demo.add_argument("part", nargs="?", choices=("rods",), help="the rods only")

    simulate = commands.add_parser("simulate", help="a scenario file in, a trajectory out; goes on where it stopped")
    simulate.set_defaults(command="simulate")
    source = simulate.add_mutually_exclusive_group(required=True)
    source.add_argument("scenario", nargs="?", metavar="FILE.toml", help="a scenario file or the name of a shipped one")
    source.add_argument("--list", dest="list_shipped", action="store_true", help="show the shipped scenarios")
    simulate.add_argument("--plot", action="store_true", help="draw the trajectory as well")

    sweep = commands.add_parser("sweep", help="a scenario file with a table [sweep]: many members, one data set")
    sweep.set_defaults(command="sweep")
    sweep.add_argument("file", metavar="FILE.toml", help="a scenario file with a table [sweep]")
    sweep.add_argument("--plot", action="store_true", help="draw the members as well")
    shared = "share the members with other processes, as SLURM or MPI start them, or by these three words"
    sweep.add_argument("--distributed", nargs="*", metavar=("HOST:PORT", "N I"), help=shared)

    # Further options depend on the body. They are parsed later, since looking up a body imports jax.
    stroke = commands.add_parser("stroke", add_help=False, help="the best stroke of a body; alone, the list of bodies")
    stroke.set_defaults(command="stroke")
    stroke.add_argument("name", nargs="?")

    studio = commands.add_parser("studio", help="a page on which one draws a stroke and watches it swim")
    studio.set_defaults(command="studio")
    own = "a body as in `geodyn stroke`, or module:name of a class, a function or a body of your own (purcell)"
    studio.add_argument("name", nargs="?", metavar="BODY", help=own)
    studio.add_argument("--port", type=_port, default=0, help="of this machine (default: a free one)")
    studio.add_argument("--no-browser", dest="browser", action="store_false", help="print the address only")
    studio.add_argument("--export", metavar="FILE", help="write a page that works without a server, and end")
    studio.add_argument(
        "--map", metavar="FILE", help="of strokes of the body, as gd.stroke_map(…).save(FILE) writes it"
    )

    about = commands.add_parser("info", help="versions, devices and settings, for a report of wrong numbers")
    about.set_defaults(command="info")

    for command in (demo, simulate, sweep):
        command.add_argument("--out", metavar="DIR", default="geodyn-out", help="folder of the results (geodyn-out)")
    return parser


def _join_others(initialize, words: list[str]) -> None:
    """Joins the other processes of a run: HOST:PORT of the first one, how many they are, and which one this is."""
    if words and not (len(words) == 3 and words[1].isdigit() and words[2].isdigit()):
        raise ValueError(
            "--distributed takes nothing (SLURM, MPI, Kubernetes), or HOST:PORT of the first process, the number N of "
            f"processes and the place I of this one, from 0; got {' '.join(words)}"
        )
    which = (words[0], int(words[1]), int(words[2])) if words else ()
    initialize(*which, initialization_timeout=PATIENCE, heartbeat_timeout_seconds=PATIENCE)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, got {text}")
    return int(text)


def _lost_interrupt(lost) -> None:
    """Python discards an exception that is raised while it frees memory, where JAX has functions of its own. A Ctrl-C
    that comes just then is sent once more, by another thread, since this function runs in the same place."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def _is_unread(more: str = "") -> bool:
    """Whether what reads the output has ended, as `head -1` does after its line: it does not take what is still to be
    written, and `more`. That is dropped then: at its exit Python would write it again, and complain."""
    if sys.stdout is None:
        return False
    try:
        print(more, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 for success, 1 for a failed computation, 2 for wrong input, 130 when interrupted, 141 where
    nobody reads the output any more, as after `| head -1`."""
    try:
        status = _run(argv)
    except SystemExit:  # By argparse, after its help.
        _is_unread()
        raise
    return UNREAD if _is_unread() else status


def _run(argv: list[str] | None) -> int:
    """Run one command, and tell on the error output why it failed; its exit status."""
    parser = _parser()
    known, words = parser.parse_known_args(argv)
    arguments = vars(known)
    if arguments["command"] == "stroke":
        arguments["words"] = words
    elif words:
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _lost_interrupt
    # The metric of a scenario may be a function in a module of the working directory.
    sys.path.insert(0, os.getcwd())
    import jax

    jax.config.update("jax_enable_x64", True)
    from geodyn import _commands, cache

    settings: Any = jax.config  # Its attributes are unknown to a type checker.
    if not settings.jax_compilation_cache_dir:
        with contextlib.suppress(OSError):  # Without a writable cache the program is only slower.
            cache()
    try:
        if (words := arguments.pop("distributed", None)) is not None:
            _join_others(jax.distributed.initialize, words)
        return getattr(_commands, arguments.pop("command"))(**arguments)
    except (ValueError, OSError, ImportError) as error:
        # Without a buffer nothing is left to be written: whether it was the output shows by one more line.
        if isinstance(error, BrokenPipeError) and _is_unread("\n"):
            return UNREAD
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
