"""`python -m gladstorm` is the `gladstorm` command."""

from gladstorm.cli import main

main()
