"""Show and check bundles: learned dynamics with the card that says what they mean.

python scripts/bundle.py list                  the bundles that come with the package
python scripts/bundle.py show NAME_OR_PATH     the card as a table
python scripts/bundle.py verify NAME_OR_PATH   check a folder: exit 0 when it can be used, 1 when not
python scripts/bundle.py seal PATH             accept your own edit of a card.json
python scripts/bundle.py physical PATH         store masses, inertias and limits of the robot's asset in the card
"""

from __future__ import annotations

import signal
import sys

from flashnerd_ext.errors import FlashNerdError, cli_main, nearest, one_line

COMMANDS = ("list", "show", "verify", "seal", "physical")


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return 0
    if not words:
        raise FlashNerdError(
            "no command was given, but one of list, show, verify, seal, physical is needed: type --help."
        )
    command, rest = words[0], words[1:]
    if command not in COMMANDS:
        raise FlashNerdError(
            f"the command {one_line(repr(command), 60)} is not known: {nearest(command[:60], COMMANDS)}"
        )
    needed = 0 if command == "list" else 1
    if len(rest) != needed:
        example = f"python scripts/bundle.py {command}" + (" cartpole" if needed else "")
        raise FlashNerdError(
            f"{command} takes {needed} argument{'s' * (needed != 1)}, but got {len(rest)}: type {example}."
        )
    try:
        commands = {"list": show_list, "show": show, "verify": verify, "seal": seal, "physical": physical}
        return commands[command](*rest)
    except FlashNerdError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1


def show_list() -> int:
    from flashnerd_ext.bundle.store import load_bundle, shipped

    names = shipped()
    if not names:
        print("no bundle comes with this package.")
    code = 0
    for name in names:
        try:
            bundle = load_bundle(name)
        except FlashNerdError as error:
            print(f"{name:<20}  cannot be used: {one_line(error)}")
            code = 1
            continue
        card = bundle.card
        count = sum(parameter.numel() for parameter in bundle.model.parameters())
        print(
            f"{name:<20}  robot {card.robot.name}, model {card.model.name}, {count:,} parameters, dt {card.dt:.6g} s, "
            f"hash {bundle.hash[:12]}"
        )
    return code


def show(name: str) -> int:
    from flashnerd_ext.bundle.store import load_bundle
    from flashnerd_ext.bundle.table import bundle_table

    print(bundle_table(load_bundle(name)))
    return 0


def verify(name: str) -> int:
    from flashnerd_ext.bundle.store import load_bundle, self_test
    from flashnerd_ext.bundle.table import version_note

    bundle = load_bundle(name)
    self_test(bundle)
    card = bundle.card
    note = version_note(card)
    if note:
        print(f"warning: {note}", file=sys.stderr)
    print(f"ok: {card.name} for robot {card.robot.name}, model {card.model.name}, hash {bundle.hash}")
    return 0


def seal(path: str) -> int:
    from flashnerd_ext.bundle.store import seal_bundle

    bundle = seal_bundle(path)
    print(f"sealed: {bundle.card.name}, hash {bundle.hash}")
    return 0


def physical(path: str) -> int:
    from flashnerd_ext.bundle.facts import physical_of_asset
    from flashnerd_ext.bundle.store import load_bundle, seal_bundle
    from flashnerd_ext.data.engines.export import robot_usd
    from flashnerd_ext.robots.registry import get_robot

    robot = get_robot(load_bundle(path).card.robot.name)
    found = physical_of_asset(robot_usd(robot))
    bundle = seal_bundle(path, lambda card: card.replace(physical=found))
    masses = ", ".join(f"{name} {mass:.4g} kg" for name, mass in found.masses.items())
    print(f"stored: {masses}; hash {bundle.hash}")
    return 0


if __name__ == "__main__":
    # A reader that has seen enough (| head) is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    cli_main(main)
