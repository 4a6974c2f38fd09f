"""A line on stderr that says for how long a first call has been compiling."""

import contextlib
import sys
import threading
import time

EVERY = 1.0


@contextlib.contextmanager
def compiling(shown: bool):
    """Shows on stderr, updated every second, for how long the first call in the block has been compiling. At the end it
    erases the line, so that further output begins there."""
    if not shown:
        yield
        return
    done, begin = threading.Event(), time.monotonic()

    def say():
        line = ""
        while not done.wait(EVERY):
            line = f"compiling … {time.monotonic() - begin:.0f} s"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        print("\r" + " " * len(line) + "\r" if line else "", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
