"""Show what a data set holds: ranges, coverage, bad rows, samplers; and draw it.

    python scripts/inspect_dataset.py data=data/cartpole

Exit status 1 when shards are missing or damaged, or steps that are marked valid are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import FlashNerdError, cli_main


@dataclass
class InspectConfig:
    data: str = field(default="data/cartpole", metadata={"help": "data set folder"})
    png: str = field(default="", metadata={"help": "picture to write; empty means DATA/inspect.png"})


def main() -> int:
    config = parse(InspectConfig, doc=__doc__)
    from flashnerd_ext.data.dataset import fixed_of, read_summary
    from flashnerd_ext.data.inspect import describe, inspect_folder, picture
    from flashnerd_ext.robots.registry import get_robot

    folder = Path(config.data)
    path = Path(config.png or folder / "inspect.png")
    if path.suffix.lower() != ".png":
        raise FlashNerdError(f"png is '{path}', but a name that ends in .png is needed.")
    summary = read_summary(folder)
    robot = get_robot(summary["robot"])
    print(
        f"{folder}: robot {summary['robot']} ({summary['asset_key']}), engine {summary['engine']} "
        f"{summary['engine_version']}, dt {summary['dt']:.6f} s, seed {summary['seed']}\nmade by: {summary['command']}"
    )
    if fixed_of(summary):
        print(f"contacts fixed: {', '.join(fixed_of(summary))}")
    reports = inspect_folder(folder, robot)
    describe(reports)
    if any(len(report.rows) for report in reports):
        try:
            picture(reports, path, f"{folder} ({summary['robot']})")
        except OSError as error:
            raise FlashNerdError(
                f"png={path} cannot be written ({error.strerror}): type another png=FILE.png."
            ) from None
        print(f"picture: {path}")
    return 1 if any(report.faults for report in reports) else 0


if __name__ == "__main__":
    cli_main(main)
