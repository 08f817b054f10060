"""Settings that must stand before torch or a simulator is imported, and the folder of the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Two threads on a busy machine were seen to make small tensor work up to 100 times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout, absolute."""
    return Path(__file__).resolve().parent.parent
