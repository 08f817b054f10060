"""FlashNeRD's tasks, and ``physics=flashnerd`` on the stock ones.

Isaac Lab's commands import this package through the entry point ``isaaclab.tasks`` before they look a task up.
"""

from __future__ import annotations

import sys

from flashnerd_ext.robots import assets

# Isaac Lab reads the asset root when its assets module is imported, so this stands before everything that imports it.
# Only for our own tasks and physics: a user with the asset server keeps it for all else.
if any("FlashNeRD-" in word or word.endswith(("=flashnerd", "=flashnerd_ovphysx")) for word in sys.argv[1:]):
    assets.activate()

from flashnerd_ext.physics.presets import install

from . import cartpole, manipulation, own, velocity  # noqa: F401  (registers their tasks)

install()
