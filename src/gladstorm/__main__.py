"""`python -m gladstorm` is the `gladstorm` command."""

import gc
import signal

from gladstorm.jobs import interrupts

FIRST_COLLECTION = 300_000  # objects: more than a command has made when its imports are done


def main() -> None:
    """Run the command line; Ctrl-C is answered from the first import on."""
    # What is imported lives to the end. To look through it for garbage, while importing and once more at the end, would
    # take a fifth of the time of README's `simulate`.
    gc.set_threshold(FIRST_COLLECTION, 1, 1)
    try:
        with interrupts.handle_signals():
            from gladstorm.cli import main as command_line

            command_line()
    finally:
        gc.freeze()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is done: Python's own exit has nothing to say about Ctrl-C


if __name__ == "__main__":
    main()
