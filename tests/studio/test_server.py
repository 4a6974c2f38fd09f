"""The server of the studio: no token, no answer; nonsense is answered, and what fails in a computation ends nothing."""

import asyncio
import json

import pytest

from geodyn._catalogue.bodies import Body
from geodyn._studio.bodies import Kind, kind_of
from geodyn._studio.server import application

httpclient = pytest.importorskip("tornado.httpclient", reason="tornado is not installed: pip install 'geodyn[studio]'")
from tornado.websocket import websocket_connect  # noqa: E402

TOKEN = "a-token"


def broken():
    raise ZeroDivisionError("a fault of the body")


KINDS = {
    "purcell": kind_of("purcell"),
    "broken": Kind("broken", Body(broken, "a body with a fault", (0.1,)), "", "broken"),
}


def visiting(visit):
    """Runs visit(address) beside a server."""

    async def run():
        server = application(KINDS, {}, "purcell", [], TOKEN).listen(port=0, address="127.0.0.1")
        port = next(iter(server._sockets.values())).getsockname()[1]
        try:
            return await asyncio.wait_for(visit(f"127.0.0.1:{port}"), 120)
        finally:
            while OPEN:
                connection = OPEN.pop()
                connection.close()
                while await connection.read_message() is not None:
                    pass
            server.stop()

    return asyncio.run(run())


def request(address, path, scheme="http", **headers):
    return httpclient.HTTPRequest(f"{scheme}://{address}{path}", headers=headers)


OPEN = []


async def connected(address, token=TOKEN, **headers):
    OPEN.append(await websocket_connect(request(address, f"/socket?token={token}", "ws", **headers)))
    return OPEN[-1]


async def asked(connection, number, ask, given):
    await connection.write_message(json.dumps({"number": number, "ask": ask, "given": given}))
    return json.loads(await connection.read_message())


def test_only_the_token_opens():
    async def visit(address):
        client, codes = httpclient.AsyncHTTPClient(), []
        for path in ("/", "/?token=wrong", f"/?token={TOKEN}", "/socket", f"/?token={TOKEN}é", "/etc/passwd"):
            answer = await client.fetch(request(address, path.replace("é", "%C3%A9")), raise_error=False)
            codes.append(answer.code)
            if answer.code == 200:
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                assert b"geodyn studio" in answer.body
        assert codes == [403, 403, 200, 403, 403, 404]

    visiting(visit)


@pytest.mark.parametrize(("token", "origin"), [("wrong", None), (TOKEN, "http://evil.example")])
def test_other_pages_get_no_socket(token, origin):
    """Nor does a page of another site in the same browser, even if it knew the token."""

    async def visit(address):
        headers = {} if origin is None else {"Origin": origin}
        with pytest.raises(httpclient.HTTPError, match="403"):
            await connected(address, token, **headers)

    visiting(visit)


def test_nonsense_and_faults_are_answered(capfd):
    async def visit(address):
        page = await connected(address)
        for nonsense in (
            "",
            "[]",
            "{}",
            '{"number": "1", "ask": "body", "given": {}}',
            '{"number": 1, "ask": 2, "given": {}}',
        ):
            await page.write_message(nonsense)
            assert json.loads(await page.read_message())["error"] == "a request is {number, ask, given}"
        told = await asked(page, 7, "body", {"body": "os:system"})
        assert told["number"] == 7 and "body must be one of purcell, broken" in told["error"]
        told = await asked(page, 8, "body", {"body": "broken"})
        assert told == {"number": 8, "error": "body failed: ZeroDivisionError: a fault of the body"}
        assert (await asked(page, 9, "body", {"body": "purcell"}))["answer"]["group"]["names"] == ["x", "y", "θ"]

    visiting(visit)
    assert "a fault of the body" in capfd.readouterr().err  # with its traceback, for who wrote the body


def test_pages_are_apart():
    """What one page has measured or found, another does not see; closing one leaves the other."""

    async def visit(address):
        one, two = [await connected(address) for _ in range(2)]
        rows = "\n".join(f"{i % 7 / 7},{i % 11 / 11},1,{i % 7 / 7}" for i in range(100))
        told = await asked(one, 1, "measure", {"name": "mine.csv", "text": "r1,r2,Ax1,Ax2\n" + rows})
        assert told["answer"]["name"] == "mine.csv"
        assert "body must be one of" in (await asked(two, 1, "body", {"body": "mine.csv"}))["error"]
        one.close()
        assert "answer" in await asked(two, 2, "body", {"body": "purcell"})

    visiting(visit)
