"""The server of the studio: one process, for this machine only, which serves the page and answers what it asks.

Only who has the token of the address gets an answer. What a page sends is checked and never run as code. An error in a
computation is an answer that says so; the page lives on.
"""

import asyncio
import contextlib
import json
import secrets
import sys
import traceback
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from geodyn._studio.assemble import assembled
from geodyn._studio.bodies import Kind
from geodyn._studio.desk import LONG, Desk, Report
from geodyn._studio.maps import Mapped

LARGEST = 32 * 1024 * 1024
"""The most bytes of a message, of which a file of measured data is the largest."""


def application(
    kinds: dict[str, Kind], maps: dict[tuple[str, str], Mapped], first: str, titles: list[dict], token: str
):
    """The pages and the socket of the studio. Raises ImportError, with the remedy, without the library for it."""
    try:
        from tornado.web import Application, RequestHandler
        from tornado.websocket import WebSocketClosedError, WebSocketHandler
    except ImportError:
        raise ImportError("geodyn studio needs tornado: pip install 'geodyn[studio]'") from None

    class Page(RequestHandler):
        def get(self):
            if not secrets.compare_digest(self.get_query_argument("token", "").encode(), token.encode()):
                self.set_status(403)
                self.finish("This address needs the token that `geodyn studio` printed.")
                return
            nonce = secrets.token_urlsafe(16)
            inside = f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data: blob:"
            self.set_header("Content-Security-Policy", f"{inside}; connect-src 'self'")
            self.set_header("Referrer-Policy", "no-referrer")
            self.set_header("Cache-Control", "no-store")
            self.finish(assembled({"alone": False, "bodies": titles, "first": first, "token": token}, nonce))

    class Socket(WebSocketHandler):
        def check_origin(self, origin: str) -> bool:
            return origin == f"http://{self.request.host}"

        def get(self):
            if not secrets.compare_digest(self.get_query_argument("token", "").encode(), token.encode()):
                self.set_status(403)
                return None
            return super().get()

        def open(self):
            self.desk = Desk(kinds, maps)
            # Two threads: while one searches, the other answers what the page asks when something is dragged.
            self.quick = ThreadPoolExecutor(1)
            self.slow = ThreadPoolExecutor(1)

        def on_close(self):
            self.desk.cancelled.set()
            for pool in (self.quick, self.slow):
                pool.shutdown(wait=False, cancel_futures=True)

        async def on_message(self, message: str | bytes) -> None:
            number = None
            try:
                asked = json.loads(message)
                number, ask, given = asked["number"], asked["ask"], asked["given"]
                if not isinstance(number, int) or not isinstance(ask, str) or not isinstance(given, dict):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                self.tell({"number": number, "error": "a request is {number, ask, given}"})
                return
            if ask == "cancel":
                self.desk.cancelled.set()
                return
            loop = asyncio.get_running_loop()

            def report(told: dict) -> None:
                loop.call_soon_threadsafe(self.tell, {"number": number, "progress": told})

            def compute():
                return _answer(self.desk, ask, given, report)

            # Not awaited here: messages are read on meanwhile.
            future = loop.run_in_executor(self.slow if ask in LONG else self.quick, compute)
            future.add_done_callback(lambda done: done.cancelled() or self.tell({"number": number} | done.result()))

        def tell(self, told: dict) -> None:
            with contextlib.suppress(WebSocketClosedError):  # The page may have been closed meanwhile.
                self.write_message(json.dumps(told))

    settings: dict[str, Any] = {"websocket_max_message_size": LARGEST, "websocket_ping_interval": 20}
    return Application([("/", Page), ("/socket", Socket)], **settings)


def _answer(desk: Desk, ask: str, given: dict, report: Report) -> dict:
    """The answer of the desk, or its error in words; what is not the user's to mend goes to the terminal too."""
    try:
        return {"answer": desk.answer(ask, given, report)}
    except (ValueError, RuntimeError) as error:
        return {"error": str(error)}
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return {"error": f"{ask} failed: {type(error).__name__}: {error}"}


def serve(
    kinds: dict[str, Kind],
    maps: dict[tuple[str, str], Mapped],
    first: str,
    titles: list[dict],
    port: int,
    show: bool,
) -> None:
    """Serve until interrupted; `port` 0 takes a free one. The address is printed, and opened in a browser if asked."""

    async def run():
        token = secrets.token_urlsafe(24)
        server = application(kinds, maps, first, titles, token).listen(port, "127.0.0.1", max_buffer_size=LARGEST)
        at = next(iter(server._sockets.values())).getsockname()[1]
        address = f"http://127.0.0.1:{at}/?token={token}"
        print(f"geodyn studio: {address}\n(Ctrl-C ends it; nobody without this address gets in)", flush=True)
        if show:
            webbrowser.open(address)
        await asyncio.Event().wait()

    asyncio.run(run())
