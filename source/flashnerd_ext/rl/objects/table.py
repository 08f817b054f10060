"""The comparison as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashnerd_ext.rl.objects.compare import AFTER, MEASURES


def text(content: Mapping[str, Any]) -> str:
    """Means of each run beside the simulator's; ``*`` where the 95 % interval of the difference leaves out 0."""
    runs = content["runs"]
    lines = [
        f"{content['task']}: {content['num_envs']} worlds, {content['seconds']:.2g} s, actions "
        f"{', '.join(content['actions'])}; * where a difference leaves its 95 % interval about 0",
        f"{'':<36}{'simulator':>10}" + "".join(f"{name:>28}" for name in runs),
    ]
    first = next(iter(runs.values()))
    for measure, (label, unit) in MEASURES.items():
        row = f"{label + ' [' + unit + ']':<36}{first['all']['measures'][measure]['reference']:>10.3g}"
        for found in runs.values():
            cell = found["all"]["measures"][measure]
            low, high = cell["interval"]
            mark = " " if cell["agrees"] else "*"
            row += f"{cell['mean']:.3g} ({low:+.2g}, {high:+.2g}){mark}".rjust(28)
        lines.append(row)
    lines.append(_row("forces apart (chance below)", runs, _forces))
    lines.append(_row(f"pose apart after {AFTER:g} s [mm, rad]", runs, _pose))
    for kind in content["actions"]:
        row = f"{'dropped: ' + kind:<36}{first[kind]['measures']['dropped']['reference']:>10.3g}"
        for found in runs.values():
            cell = found[kind]["measures"]["dropped"]
            row += f"{cell['mean']:.3g}{' ' if cell['agrees'] else '*'}".rjust(28)
        lines.append(row)
    lines.append(_row("steps that the guard took over", runs, lambda found: f"{found['fallen_back']}"))
    return "\n".join(lines)


def _row(label: str, runs: Mapping[str, Any], show: Any) -> str:
    return f"{label:<46}" + "".join(f"{show(found):>28}" for found in runs.values())


def _forces(found: Mapping[str, Any]) -> str:
    forces = found["all"]["forces"]
    return f"{forces['distance']:.3f} ({forces['chance']:.3f}){' ' if forces['agrees'] else '*'}"


def _pose(found: Mapping[str, Any]) -> str:
    pose = found["all"]["pose"]
    return f"{pose['mm']:.2g}, {pose['rad']:.2g} " if pose["worlds"] else "none left "
