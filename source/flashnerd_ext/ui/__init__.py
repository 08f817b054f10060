"""The window in Omniverse Kit: bundles with their cards, runs, and what the guard holds.

Importing this needs no Kit; what the window shows is plain Python (:mod:`flashnerd_ext.ui.model`). Kit imports this
module, and starts the extension class that it finds in it.
"""

from flashnerd_ext.ui.extension import FlashNerdExtension

__all__ = ["FlashNerdExtension"]
