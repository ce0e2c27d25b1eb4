"""Ctrl-C and SIGTERM on the command line: the work stops where it can, and all of it ends within two seconds.

Python would raise KeyboardInterrupt wherever it happens to be: in the middle of an import, or in a callback of JAX,
which swallows it. Here a thread waits for the signal, and the work calls `check` where it can stop in order and keep
what it has. What has not ended in time (a long compilation, a large file) is ended as it is, and so is everything at
the second signal: files are whole or absent at any moment. Either way one line says what is kept. This module loads
nothing heavy, so that `__main__` can handle signals before anything else is imported.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NoReturn

CODE = 130  # of Ctrl-C, 128 + SIGINT as shells have it; SIGTERM's is 143
PATIENCE = 1.2  # seconds: of two, the rest is for a machine that is busy
NOTHING_KEPT = "nothing new is kept; the same command starts again"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LEFT = 0  # no signal's number: the with-block was left


class _State:
    handling = False
    received: int | None = None  # the signal
    stopping = False  # the work has heard of it
    message = NOTHING_KEPT  # what is kept, and how to go on


def _reset(*, handling: bool) -> None:
    _State.handling, _State.received, _State.stopping, _State.message = handling, None, False, NOTHING_KEPT


def set_kept_message(message: str) -> None:
    """Set what an interrupt would leave from now on, and how to go on: the line that is written when one comes."""
    _State.message = message


def check() -> None:
    """Raise KeyboardInterrupt if the command line was interrupted; call it where work can stop in order."""
    if _State.received is not None and not _State.stopping:
        _State.stopping = True
        raise KeyboardInterrupt


@contextmanager
def handle_signals() -> Iterator[None]:
    """Handle the signals in a with-block; if one came the process ends with its exit code, whether work heard or not.

    A standard stream that is closed becomes one that nobody reads: the next file to be opened would take its place.
    """
    if _State.handling or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    _open_closed_streams()
    _reset(handling=True)
    receiver, sender = socket.socketpair()
    sender.setblocking(False)  # a signal's handler never waits
    thread = threading.Thread(target=_wait, args=(receiver,), name="interrupts", daemon=True)
    thread.start()  # first: a signal that only the handlers received, which do nothing, would be lost
    wakeup_fd = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    # One that is ignored stays so: a shell's background job is not interrupted from the keyboard.
    before = {number: signal.getsignal(number) for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, lambda *_: None)
        yield
    except KeyboardInterrupt:
        if _State.received is None:  # nobody's signal: a prompt was left
            _write_message()
            sys.exit(CODE)
    finally:
        sender.send(bytes([_LEFT]))
        thread.join()
        if _State.received is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            _end()
        signal.set_wakeup_fd(wakeup_fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        receiver.close()
        sender.close()
        _reset(handling=False)


def _wait(receiver: socket.socket) -> None:
    """Wait for a signal, then for the work to end, for another signal or until it has had time enough."""
    number = _next(receiver)
    if number == _LEFT:
        return
    _State.received = number
    receiver.settimeout(PATIENCE)
    with suppress(TimeoutError):
        number = _next(receiver)
    if number != _LEFT:
        _end()


def _next(receiver: socket.socket) -> int:
    """Return the next of the signals that matter here; others have handlers too."""
    return next(number for [number] in iter(partial(receiver.recv, 1), b"") if number in (_LEFT, *_SIGNALS))


def _end() -> NoReturn:
    """Leave at once: what Python and JAX do at their exit may wait for a computation."""
    _write_message()
    os._exit(128 + (_State.received or signal.SIGINT))


def _write_message() -> None:
    """Write the line, past Python's buffers, of which another thread may hold the lock."""
    with suppress(OSError):  # a full disk, a closed pipe: the exit code says it
        bar = "\r\x1b[K\x1b[?25h" if os.isatty(2) else ""  # what a progress bar leaves: its line, and no cursor
        os.write(2, f"{bar}Interrupted: {_State.message}.\n".encode())


def _open_closed_streams() -> None:
    """Let standard streams that were closed lead nowhere."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest free number, which this is
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
