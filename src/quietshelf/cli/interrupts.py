"""Ctrl-C: stop the work and its worker processes at once, and print what was kept."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children, resource_tracker

import typer

STOPPED = 130
"""The exit status that shells expect after Ctrl-C."""
NOTHING_KEPT = "Nothing was kept: the same command starts over."
_END = b"\0"


@contextmanager
def stoppable(kept: str) -> Iterator[None]:
    """Let Ctrl-C end the work with status 130 and a line that says what was kept.

    A terminal sends the signal to every process of the command. The main thread blocks it, and workers inherit that, so
    they print no traceback. A listening thread receives it and terminates the workers, so that nothing waits for them;
    the main thread then gets the usual KeyboardInterrupt.
    """
    if not _can_listen():
        yield
        return
    resource_tracker.ensure_running()  # now, because starting it later would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    heard, said = os.pipe()
    os.set_blocking(said, False)
    earlier = signal.set_wakeup_fd(said, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(heard,), daemon=True)
    listener.start()
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nstopped. {kept}", err=True)
        raise typer.Exit(STOPPED) from None
    finally:
        signal.set_wakeup_fd(earlier)
        os.write(said, _END)
        listener.join()
        os.close(heard)
        os.close(said)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _can_listen() -> bool:
    """Whether Ctrl-C is ours to handle: main thread, default handler, no outer block."""
    return (
        hasattr(signal, "pthread_sigmask")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    )


def _listen(heard: int) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while True:
        got = os.read(heard, 64)
        if signal.SIGINT in got:
            for child in active_children():
                child.terminate()
        if _END in got:
            return
