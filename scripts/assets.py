"""The local asset root: what it holds, where it lies, whether it is right.

    python scripts/assets.py build            build the root of this installation (force=true: anew)
    python scripts/assets.py list             robots, joints, masses, keys and what is missing
    python scripts/assets.py path [robot]     print the folder, or the file of a robot
    python scripts/assets.py pictures [robot] draw each robot, and say what of it is grey or cannot be seen (a PNG each
                                              below outputs/robots; exit 1 where a robot has no visuals or no colour)
    python scripts/assets.py verify [robot]   compare with the source: masses, limits, mass matrix (exit 1 on a miss)

Use the root with Isaac Lab's own commands through: export ISAACSIM_ASSET_ROOT=$(python scripts/assets.py path)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from flashnerd_ext.errors import FlashNerdError, cli_main, nearest

_COMMANDS = ("build", "list", "path", "pictures", "verify")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return 0
    command, *rest = words
    if command not in _COMMANDS:
        raise FlashNerdError(f"unknown command '{command}': {nearest(command, _COMMANDS)}")
    force = "force=true" in rest
    robots = [word for word in rest if word != "force=true"]
    if (force and command != "build") or len(robots) > (command in ("path", "pictures", "verify")):
        raise FlashNerdError(
            f"'{command}' does not take '{' '.join(rest)}': type python scripts/assets.py --help for its options."
        )
    if command == "build":
        return _build(force)
    if command == "list":
        return _list()
    return {"path": _path, "pictures": _pictures, "verify": _verify}[command](robots[0] if robots else None)


def _build(force: bool) -> int:
    from flashnerd_ext.robots.assets.build import build_root
    from flashnerd_ext.robots.assets.manifest import read_manifest

    start = time.perf_counter()
    folder = build_root(force)
    manifest = read_manifest(folder)
    print(f"{folder}  ({len(manifest['robots'])} robots, {len(manifest['props'])} props, "
          f"{time.perf_counter() - start:.1f} s)")  # fmt: skip
    for reason in manifest["missing"].values():
        print(f"left out: {reason}")
    return 0


def _pictures(robot: str | None) -> int:
    from pathlib import Path

    import imageio.v2 as imageio

    from flashnerd_ext.files import atomic_save
    from flashnerd_ext.robots.registry import ROBOTS, get_robot
    from flashnerd_ext.view.scene import open_gl, portrait

    folder, rows, bad = Path("outputs") / "robots", [], 0
    width, height = 480, 368
    viewer = open_gl(width, height)
    folder.mkdir(parents=True, exist_ok=True)
    for name in [robot] if robot else ROBOTS:
        picture, facts = portrait(get_robot(name), viewer, width, height)
        atomic_save(folder / f"{name}.png", lambda temporary, picture=picture: imageio.imwrite(temporary, picture))
        bad += not facts["shapes"] or facts["colors"] < 2
        bare = ", ".join(facts["links"]) or "none"
        rows.append((name, str(facts["shapes"]), str(facts["colors"]), f"{facts['grey']:.0%}", bare))
    print(_table(("robot", "visible shapes", "colours", "of them grey", "links without visuals"), rows))
    print(f"pictures: {folder}")
    return int(bad > 0)


def _list() -> int:
    from flashnerd_ext.robots.assets.manifest import read_manifest
    from flashnerd_ext.robots.assets.root import local_root

    folder = local_root()
    manifest = read_manifest(folder)
    head = ("robot", "key", "joints", "mass kg", "base", "licence", "source")
    rows = [
        (
            name,
            f"{name}@local-{facts['fingerprint']}",
            str(len(facts["joints"])),
            f"{facts['mass']:.3f}",
            "fixed" if facts["fixed_base"] else "free",
            facts["licence"],
            facts["source"].split(":")[0],
        )
        for name, facts in manifest["robots"].items()
    ]
    print(f"asset root: {folder}")
    print(_table(head, rows))
    for name, reason in manifest["missing"].items():
        print(f"{name}: left out, since {reason}")
    print("props: " + ", ".join(name.rsplit("/", 1)[-1] for name in manifest["props"]))
    return 0


def _path(robot: str | None) -> int:
    from flashnerd_ext.robots.assets.descriptions import get_description
    from flashnerd_ext.robots.assets.root import local_root

    relative = [get_description(robot).outputs[0]] if robot else []
    print(local_root().joinpath(*relative))
    return 0


def _verify(robot: str | None) -> int:
    from flashnerd_ext.robots.assets.descriptions import all_descriptions, get_description
    from flashnerd_ext.robots.assets.root import local_root
    from flashnerd_ext.robots.assets.verify import verify

    chosen = [get_description(robot)] if robot else list(all_descriptions().values())
    rows, failed = [], 0
    for description in chosen:
        for check in verify(description, local_root()):
            failed += not check.ok
            state = "ok" if check.ok else "WRONG"
            rows.append((description.name, check.what, f"{check.error:.1e}", f"{check.allowed:.0e}", state))
    print(_table(("robot", "check", "error", "allowed", ""), rows))
    print(f"{len(rows) - failed} of {len(rows)} checks hold")
    return 1 if failed else 0


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(str(row[column])) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(str(c).ljust(w) for c, w in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    cli_main(main)
