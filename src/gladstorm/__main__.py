"""`python -m gladstorm` is the `gladstorm` command."""

import signal

from gladstorm.jobs import interrupts


def main() -> None:
    """Run the command line; Ctrl-C is answered from the first import on."""
    try:
        with interrupts.handle_signals():
            from gladstorm.cli import main as command_line

            command_line()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is done: Python's own exit has nothing to say about Ctrl-C


if __name__ == "__main__":
    main()
