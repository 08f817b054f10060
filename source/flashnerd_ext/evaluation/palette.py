"""One colour a model in every picture, and the published figures that stand beside ours."""

from __future__ import annotations

COLORS = {
    "flashnerd": "#2a78d6",
    "nerd": "#eb6834",
    "nerd_optimized": "#1baf7a",
    "newton_mjwarp": "#4a3aa7",
}
"""Colour of each named model or backend; chosen to stay apart for colour-blind readers."""
OTHERS = ("#eda100", "#e87ba4", "#008300", "#e34948")
"""Colours of models with other names, in the order they appear."""
INK, MUTED, GRID = "#1f1f1d", "#6f6e69", "#e3e2dd"
"""Text and simulator, secondary text and noise floor, grid lines."""

LABELS = {"flashnerd": "FlashNeRD", "nerd": "NeRD", "nerd_optimized": "Optimized NeRD", "newton_mjwarp": "MuJoCo Warp"}
"""How a model is called in a picture."""

PAPER: dict[str, dict[str, dict[int, float]]] = {
    "cartpole": {
        "nerd_optimized": {1: 5.89e-5, 15: 4.78e-4, 100: 8.43e-3, 200: 0.106},
        "flashnerd": {1: 4.41e-5, 15: 1.73e-4, 100: 3.23e-3, 200: 0.0599},
    },
    "franka": {
        "nerd_optimized": {1: 5.005e-4, 15: 5.63e-3, 100: 0.291, 200: 0.747},
        "flashnerd": {1: 5.008e-4, 15: 5.00e-3, 100: 0.232, 200: 0.674},
    },
    "g1": {
        "nerd_optimized": {1: 0.0351, 15: 0.0847, 100: 0.247, 200: 0.319},
        "flashnerd": {1: 0.0231, 15: 0.0667, 100: 0.230, 200: 0.302},
    },
}
"""E_H as published, by robot, model and horizon; on the authors' own data, so a mark to look at, not the same test."""


def color_of(name: str, names: list[str]) -> str:
    """Colour of a model among all that are shown."""
    if name in COLORS:
        return COLORS[name]
    return OTHERS[[n for n in names if n not in COLORS].index(name) % len(OTHERS)]


def label_of(name: str) -> str:
    """Name of a model as a person would write it."""
    return LABELS.get(name, name)
