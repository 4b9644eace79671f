"""``python -m tests.serving.service.exact serve ...``: the service with a noiseless source, so that sums can be seen.

A test program can inject it; the real command has no way to.
"""

from __future__ import annotations

import sys
import threading

import uvicorn
from tests.noiseless import Noiseless

from quietshelf.serving.service import logs, settings
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.http.app import SWITCH_SECONDS, make_app, warm
from quietshelf.serving.service.http.protocol import options
from quietshelf.serving.service.service import Service


def main(arguments: list[str]) -> None:
    """As ``quietshelf serve`` does, but for the noise."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    port = int(given["--port"])
    flags = {"database": given["--database"], "secrets": given["--secrets"], "port": port}
    service = Service(settings.read(flags=flags), source=Noiseless())
    service.store.migrate()
    if keys.first(service.store) is not None:
        print("the first admin key is made", flush=True)
    logs.take_over()
    sys.setswitchinterval(SWITCH_SECONDS)
    threading.Thread(target=warm, daemon=True).start()
    uvicorn.run(make_app(service), host="127.0.0.1", port=port, **options(service.settings))


if __name__ == "__main__":
    main(sys.argv[2:])
