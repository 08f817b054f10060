"""Compare robot and object in coupled mode with the simulator: the same starts and actions in every world.

    python scripts/evaluate_objects.py bundle=runs/allegro num_envs=256 seconds=2 json=outputs/objects.json

Drops, where the object goes and what contacts do to it, in the simulator, in the simulator from a start that differs by
a millionth, in two-way and in one-way coupling; with bootstrap intervals over worlds, a picture and a JSON file.
"""

from __future__ import annotations

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.objects.program import ObjectsConfig, run


def main() -> None:
    """Read the options and run."""
    run(parse(ObjectsConfig, doc=__doc__))


if __name__ == "__main__":
    cli_main(main)
