"""Ctrl-C and SIGTERM on the command line: the work stops where it can, and all of it ends within two seconds.

Python would raise KeyboardInterrupt wherever it happens to be: in the middle of an import, or in a callback of JAX,
which swallows it. Here a thread hears the signal, and the work asks `check` where it can stop in order and keep what it
has. What has not ended in time (a long compilation, a large file) is ended as it is, and so is everything at the second
signal: files are whole or absent at any moment. Either way one line says what is kept. This module loads nothing heavy,
so that `__main__` can listen before anything else is imported.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

CODE = 130  # of Ctrl-C, 128 + SIGINT as shells have it; SIGTERM's is 143
PATIENCE = 1.2  # seconds: of two, the rest is for a machine that is busy
NOTHING_KEPT = "nothing new is kept; the same command starts again"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LEFT = 0  # no signal's number: the with-block was left


class _State:
    listening = False
    heard: int | None = None  # the signal
    stopping = False  # the work knows
    kept = NOTHING_KEPT
    started: set[int] = set()  # processes


def keeping(what: str) -> None:
    """Declare what an interrupt would leave from now on, and how to go on: the line that is said when one comes."""
    _State.kept = what


def end_too(pid: int) -> None:
    """Let a process that this one has started end with it, whatever it is at."""
    _State.started.add(pid)


def has_ended(pid: int) -> None:
    """Say that such a process is gone: its number may be another's by now."""
    _State.started.discard(pid)


def check() -> None:
    """Raise KeyboardInterrupt if the command line was interrupted; call it where work can stop in order."""
    if _State.heard is not None and not _State.stopping:
        _State.stopping = True
        raise KeyboardInterrupt


@contextmanager
def answered() -> Iterator[None]:
    """Listen to the signals in a with-block, and end the process with their exit code if one interrupted it."""
    if _State.listening or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    _State.listening, _State.heard, _State.stopping, _State.kept = True, None, False, NOTHING_KEPT
    hears, tells = socket.socketpair()
    tells.setblocking(False)  # a signal's handler never waits
    listener = threading.Thread(target=_listen, args=(hears,), name="interrupts", daemon=True)
    listener.start()
    # One that is ignored stays so: a shell's background job is not interrupted from the keyboard.
    before = {each: signal.getsignal(each) for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN}
    # The listener first: a signal that only the handlers had heard, which do nothing, would be lost.
    wakened = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
    try:
        for each in before:
            signal.signal(each, lambda *_: None)
        yield
    except KeyboardInterrupt:
        if _State.heard is not None:
            sys.stdout.flush()
            _end()
        _say()
        sys.exit(CODE)
    finally:
        signal.set_wakeup_fd(wakened)
        for each, handler in before.items():
            signal.signal(each, handler)
        tells.send(bytes([_LEFT]))
        listener.join()
        hears.close()
        tells.close()
        _State.listening = False


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt in a with-block, where nobody has said yet what it should do."""
    mine = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _listen(hears: socket.socket) -> None:
    """Wait for a signal, then for the work to end, for another signal or until it has had time enough."""
    number = _next(hears)
    if number == _LEFT:
        return
    _State.heard = number
    hears.settimeout(PATIENCE)
    with suppress(TimeoutError):
        number = _next(hears)
    if number != _LEFT:
        _end()


def _next(hears: socket.socket) -> int:
    """The next of the signals that matter here."""
    while (number := hears.recv(1)[0]) not in (_LEFT, *_SIGNALS):
        pass
    return number


def _end() -> NoReturn:
    """Leave at once: what Python and JAX do at their exit may wait for a computation."""
    _say()
    for pid in tuple(_State.started):
        with suppress(ProcessLookupError, ChildProcessError):  # it has ended
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    os._exit(128 + (_State.heard or signal.SIGINT))


def _say() -> None:
    """Write the line, past Python's buffers, of which another thread may hold the lock."""
    bar = "\r\x1b[K\x1b[?25h" if os.isatty(2) else ""  # what a progress bar leaves: its line, and no cursor
    os.write(2, f"{bar}Interrupted: {_State.kept}.\n".encode())
