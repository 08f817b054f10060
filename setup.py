"""Build shim: the metadata is in pyproject.toml, the version in extension.toml, and the folders are mapped here."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent

with (HERE / "extension.toml").open("rb") as file:
    VERSION = tomllib.load(file)["package"]["version"]

setup(
    version=VERSION,
    packages=[
        *find_packages("source"),
        "flashnerd_tasks",
        *(f"flashnerd_tasks.{name}" for name in find_packages("tasks")),
    ],
)
