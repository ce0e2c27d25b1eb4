"""`python -m evidence` lists the studies; `python -m evidence NAME` runs one and makes its figures and its page."""

from gladstorm.jobs import interrupts

if __name__ == "__main__":
    with interrupts.handle_signals():  # from the first import on
        from evidence.app import app
        from gladstorm.cli.app import main

        main(app)
