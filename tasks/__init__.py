"""FlashNeRD's tasks, and ``physics=flashnerd`` on the stock ones.

Isaac Lab's commands import this package through the entry point ``isaaclab.tasks`` before they look a task up.
"""

from __future__ import annotations

from flashnerd_ext.physics.presets import install

from . import cartpole  # noqa: F401  (registers its tasks)

install()
