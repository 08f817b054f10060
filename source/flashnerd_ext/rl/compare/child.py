"""One training in a process of its own: ``python -m flashnerd_ext.rl.compare.child WORDS``, the words of train.py."""

from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.command import train

if __name__ == "__main__":
    cli_main(train)
