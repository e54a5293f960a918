"""Who may open the viewer's page, and where it listens."""

from __future__ import annotations

import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque

import pytest

from rookery.sim.errors import RookeryError
from rookery.sim.viewing.server import Access, close_server, is_loopback, open_server

OWN = Access("127.0.0.1", 8080, "own")
OPEN = Access("0.0.0.0", 8080, "secret")


def headers(host: str = "127.0.0.1:8080", **more: str) -> dict[str, str]:
    return {"Host": host, **more}


def test_others_on_this_machine_need_the_token_too():
    for host in ("127.0.0.1:8080", "localhost:8080", "localhost:9000", "[::1]:8080", "evil.example:8080"):
        assert OWN.refusal("/?token=own", headers(host)) == ""
        assert "token" in OWN.refusal("/", headers(host))


def test_websocket_of_a_foreign_page_is_refused():
    for access, path in ((OWN, "/?token=own"), (OPEN, "/?token=secret")):
        assert access.refusal(path, headers(Origin="http://127.0.0.1:8080")) == ""
        assert "not the viewer's own" in access.refusal(path, headers(Origin="https://evil.example"))


def test_beyond_loopback_a_token_is_needed():
    assert OPEN.refusal("/?token=secret", headers("robot.lan:8080")) == ""
    assert OPEN.refusal("/", headers("robot.lan:8080", Cookie=f"a=b; {OPEN.cookie}=secret")) == ""
    for path in ("/", "/?token=", "/?token=secre", "/?token=Secret", "/?tok=secret"):
        assert "token" in OPEN.refusal(path, headers())
    assert "token" in OPEN.refusal("/", headers(Cookie="rookery_viewer_8080=wrong"))
    assert "token" in OPEN.refusal("/", headers(Cookie="rookery_viewer_8081=secret"))  # of a viewer on another port
    assert OPEN.url.endswith(":8080/?token=secret")


def test_loopback_addresses():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.5", "robot", "")))


def test_the_server_itself_refuses():
    server, access = open_server("0.0.0.0", 0)
    try:
        address = f"http://127.0.0.1:{access.port}/"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address, timeout=10)
        assert refused.value.code == 403
        refused.value.close()  # the server waits for connections before it ends
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "viser-v1.1.1"}  # fmt: skip
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address, headers=upgrade), timeout=10)
        assert refused.value.code == 403
        refused.value.close()
        with urllib.request.urlopen(f"{address}?token={access.token}", timeout=10) as page:
            assert page.status == 200
            cookie = page.headers["Set-Cookie"].split(";")[0]
        with urllib.request.urlopen(urllib.request.Request(address, headers={"Cookie": cookie}), timeout=10) as page:
            assert page.status == 200
    finally:
        close_server(server)


class Waiters(deque):
    """Whoever waits for an event, and the threads that woke them."""

    def __init__(self) -> None:
        super().__init__()
        self.woken_by: list[int] = []

    def __iter__(self):
        self.woken_by.append(threading.get_ident())
        return super().__iter__()


def test_only_the_servers_thread_wakes_those_who_wait_for_messages():
    server, _ = open_server("127.0.0.1", 0)
    try:
        buffer = server._websock_server._broadcast_buffer
        buffer.message_event._waiters = waiters = Waiters()
        for i in range(20):
            buffer.message_event._value = False
            server.scene.add_frame(f"/frame_{i}")
        end = time.monotonic() + 20.0
        while not buffer.message_event.is_set() and time.monotonic() < end:
            time.sleep(0.01)
        assert buffer.message_event.is_set()
        assert waiters.woken_by
        assert threading.get_ident() not in waiters.woken_by
    finally:
        close_server(server)


def test_pages_cannot_ask_for_a_tunnel():
    from viser._messages import ShareUrlRequest

    server, _ = open_server(port=0)
    try:
        assert ShareUrlRequest not in server._websock_server._incoming_handlers
    finally:
        close_server(server)


def test_port_in_use_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RookeryError, match=rf"port {port} of 127.0.0.1 is in use: .*--viewer-port"):
            open_server(port=port)


def test_impossible_places_are_one_sentence():
    with pytest.raises(RookeryError, match="from 0 to 65535"):
        open_server(port=70000)
    with pytest.raises(RookeryError, match=r"192\.0\.2\.1"):  # an address for documentation, RFC 5737
        open_server("192.0.2.1", 0)


def test_without_viser_the_way_out_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(RookeryError, match=r"pip install 'rookery\[viewer\]'"):
        open_server(port=0)
