"""``--viz`` and ``--video``: which viewer a command opens, and what it does where nobody names one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from flashnerd_ext.errors import FlashNerdError, nearest

VIEWERS = {"newton": "newton_gl", "viser": "viser", "rerun": "rerun", "kit": "kit", "none": "none"}
"""Names that our commands take -> Isaac Lab's. Isaac Lab's own names are taken too."""
_OTHERS = ("newton_gl", "newton_rtx")


def has_display(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a window can be opened here."""
    found = os.environ if environ is None else environ
    return bool(found.get("DISPLAY") or found.get("WAYLAND_DISPLAY"))


def viewer_name(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Isaac Lab's names for ``--viz TEXT``, a comma-separated list.

    Raises:
        FlashNerdError: For an unknown viewer, and for one that cannot run here.
    """
    found: list[str] = []
    for word in text.split(","):
        name = VIEWERS.get(word, word if word in _OTHERS else "")
        if not name:
            raise FlashNerdError(f"--viz is '{text}', and '{word}' is no viewer: {nearest(word, VIEWERS)}")
        _check(name, environ)
        found.append(name)
    return ",".join(found)


def _check(name: str, environ: Mapping[str, str] | None) -> None:
    if name.startswith("newton_") and not has_display(environ):
        raise FlashNerdError(
            "--viz newton opens a window, but there is no display here (DISPLAY is empty): type --viz viser for a page "
            "in a browser, or --video for a clip."
        )
    if name == "rerun" and find_spec("rerun") is None:
        raise FlashNerdError('--viz rerun needs rerun-sdk, which is not installed: type pip install "rerun-sdk>=0.41".')
    if name == "viser" and find_spec("viser") is None:
        raise FlashNerdError("--viz viser needs viser, which is not installed: type pip install viser.")
    if name == "kit" and find_spec("isaacsim") is None:
        raise FlashNerdError(
            "--viz kit needs Isaac Sim, which is not installed in this Python: type --viz viser or --viz newton, or "
            "run it with Isaac Sim's python.sh."
        )


def default_viewing(environ: Mapping[str, str] | None = None) -> list[str]:
    """What a command shows when nobody says: a window where there is a display, else a clip."""
    return ["--viz", "newton_gl"] if has_display(environ) else ["--video"]


def as_options(words: Sequence[str]) -> list[str]:
    """``--viz NAME`` and ``--video`` of a command line as the ``viz=NAME`` and ``video=true`` of our other commands."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--video":
            found.append("video=true")
        elif word == "--viz":
            found.append(f"viz={next(rest, '')}")
        else:
            found.append(word.removeprefix("--") if word.startswith("--viz=") else word)
    return found
