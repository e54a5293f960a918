"""The web server of the viewer: who may connect, and where.

viser (https://viser.studio) serves its page and a WebSocket on one port. It has no notion of who may connect, so that every
request is checked here before viser sees it: the token; and that a WebSocket comes from the viewer's own
page, since browsers let any page of the web open one to 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import hmac
import io
import ipaddress
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from viser import ViserServer

LOOPBACK = "127.0.0.1"
PORT = 8080
HOW = "the viewer needs viser: `pip install 'rookery[viewer]'`"


@dataclass(frozen=True)
class Access:
    """Settings of the viewer: its address and the token it asks for.

    Args:
        host: address or name to listen on.
        port: TCP.
        token: that clients must show, on loopback addresses too: everybody who has an account here can open those.
    """

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """The page's address, with the token."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie's name: cookies are shared by all ports of a host."""
        return f"rookery_viewer_{self.port}"

    def refusal(self, path: str, headers: Mapping[str, str]) -> str:
        """Why a request is refused, "" if it is not.

        Args:
            path: with the query.
            headers: of the request.
        """
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("Host", ""):
            return "This page is not the viewer's own: open the address that rookery printed.\n"
        given = [*parse_qs(urlsplit(path).query).get("token", []), self._cookie(headers)]
        if any(hmac.compare_digest(value.encode(), self.token.encode()) for value in given):
            return ""
        return "The viewer asks for a token: open the address that rookery printed, with ?token=... at its end.\n"

    def _cookie(self, headers: Mapping[str, str]) -> str:
        try:
            found = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found else ""


def is_loopback(host: str) -> bool:
    """True where an address or name is this machine's own for sure."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_server(host: str = LOOPBACK, port: int = PORT) -> tuple[ViserServer, Access]:
    """Start the web server, in a thread of its own.

    Args:
        host: address to listen on.
        port: TCP; 0 for any that is free.

    Raises:
        RookeryError: viser is not installed, or the place cannot be listened on.
    """
    require_viser()
    import viser

    check_free(host, port)
    _wake_from_threads()
    token = secrets.token_urlsafe(16)
    waiting = Access(host, port, token)
    with _guarded(lambda: waiting) as checks, contextlib.redirect_stdout(io.StringIO()):  # viser prints addresses
        server = viser.ViserServer(host=host, port=port, verbose=False)
    waiting = Access(host, server.get_port(), token)
    if not checks or (port and waiting.port != port):  # somebody took the port meanwhile, and viser the next one
        close_server(server)
        if not checks:
            raise RookeryError("this version of viser is not known, and the viewer cannot guard it: " + HOW + ".")
        raise _taken(host, port)
    _forbid_sharing(server)
    return server, waiting


def close_server(server: ViserServer) -> None:
    """Stop listening and end the thread."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


def require_viser() -> None:
    """Say how to install viser where it is not; raises RookeryError."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise RookeryError(f"{HOW}.") from error


def check_free(host: str, port: int) -> None:
    """Refuse a place that cannot be listened on; raises RookeryError."""
    if not 0 <= port < 65536:
        raise RookeryError(f"--viewer-port must be from 0 to 65535, got {port}.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except socket.gaierror as error:
        raise RookeryError(f"--viewer-host {host} is no address of this machine ({error.strerror}).") from error
    except PermissionError as error:
        raise RookeryError(
            f"port {port} is for root alone: choose another with --viewer-port, such as {PORT}."
        ) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _taken(host, port) from error
        raise RookeryError(f"the viewer cannot listen on {host} port {port}: {error.strerror}.") from error


def _taken(host: str, port: int) -> RookeryError:
    return RookeryError(
        f"port {port} of {host} is in use: choose another with --viewer-port, such as {port + 1}, or 0."
    )


@contextlib.contextmanager
def _guarded(access: Any) -> Iterator[list[bool]]:
    """While it lasts, servers of `websockets` that start check every request; the list tells whether one did.

    viser takes no check of its own, but calls ``websockets.asyncio.server.serve`` by that name when it starts.
    """
    import websockets.asyncio.server as module

    original: Any = module.serve
    started: list[bool] = []

    def serve(*args: Any, process_request: Any = None, **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            allowed: Access = access()
            refusal = allowed.refusal(request.path, request.headers)
            if refusal:
                return connection.respond(403, refusal)
            response = process_request(connection, request) if process_request else None
            if response is not None:
                flags = "Path=/; HttpOnly; SameSite=Strict"
                response.headers["Set-Cookie"] = f"{allowed.cookie}={allowed.token}; {flags}"
            return response

        started.append(True)
        return original(*args, process_request=check, **options)

    module.serve = serve  # type: ignore[assignment,misc]
    try:
        yield started
    finally:
        module.serve = original  # type: ignore[misc]


def _wake_from_threads() -> None:
    """Let messages be sent from threads other than the server's; raises RookeryError for a viser that is not known.

    viser sets an `asyncio.Event` from the thread that sends, which asyncio allows its own thread alone: the sender raises
    "deque mutated during iteration", or a page is not told, when a client begins or ceases to wait at that moment. viser
    has the server's thread set the event as well, so that the sender can do without.
    """
    from viser.infra import _infra as module

    original: type = getattr(module, "AsyncMessageBuffer", object)
    if not dataclasses.is_dataclass(original) or "message_event" not in {f.name for f in dataclasses.fields(original)}:
        raise RookeryError("this version of viser is not known, and the viewer cannot send to it safely: " + HOW + ".")
    if issubclass(original, _SafeBuffer):
        return

    @dataclass
    class Buffer(original, _SafeBuffer):  # type: ignore[misc]
        message_event: asyncio.Event = dataclasses.field(default_factory=_LoopEvent)

    module.AsyncMessageBuffer = Buffer  # type: ignore[misc]


class _SafeBuffer:
    """Marks a buffer whose event is a `_LoopEvent`."""


class _LoopEvent(asyncio.Event):
    """An event that only the thread of a running event loop sets."""

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # no loop runs in this thread
            asyncio.get_running_loop()
            super().set()


def _forbid_sharing(server: ViserServer) -> None:
    """Clients can ask viser to open a tunnel to the public internet: here they cannot."""
    from viser._messages import ShareUrlDisconnect, ShareUrlRequest

    for message in (ShareUrlRequest, ShareUrlDisconnect):
        server._websock_server.unregister_handler(message)
