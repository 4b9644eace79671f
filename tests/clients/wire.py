"""A wire with an ear: passes connections on to another port and remembers every byte that was sent there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Wire:
    """Listens on ``port``; ``heard`` is what clients sent, one text per connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._heard: list[bytearray] = []

    @property
    def heard(self) -> list[str]:
        """What was sent, however it is encoded."""
        return [bytes(each).decode("latin-1") for each in self._heard]

    def lead_to(self, port: int) -> None:
        """Pass on whatever comes, until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", port))
            self._heard.append(bytearray())
            for pair in ((client, server, self._heard[-1]), (server, client, None)):
                threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def wire() -> Iterator[Wire]:
    """A wire, to be led somewhere."""
    made = Wire()
    try:
        yield made
    finally:
        made.close()


def _pass_on(source: socket.socket, target: socket.socket, ear: bytearray | None) -> None:
    try:
        while part := source.recv(65_536):
            if ear is not None:
                ear += part
            target.sendall(part)
    except OSError:
        pass
    finally:
        for each in (source, target):
            each.close()
