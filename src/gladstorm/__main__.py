"""`python -m gladstorm` is the `gladstorm` command."""

from gladstorm.cli import main

if __name__ == "__main__":  # a process that draws imports this module, too
    main()
