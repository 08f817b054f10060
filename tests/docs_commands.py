"""The commands that README.md and docs/ tell people to type, read out of the Markdown."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

GPU = "needs a GPU"
"""What the title of a block says whose commands were not run here."""
STARTS = ("python scripts/", "torchrun ", "isaaclab ", "make ")
OURS = re.compile(rf"^(?:[A-Z_]+=\S+ +)*(?:{'|'.join(map(re.escape, STARTS))})")
PLACEHOLDERS = {
    "TASK": "Isaac-Reach-Franka",  # offers each of the presets that a page names with it
    "FlashNeRD-Velocity-Flat-Myrobot": "FlashNeRD-Velocity-Flat-AnymalC",
    "FlashNeRD-Reach-Myrobot": "Isaac-Reach-Franka",
}
"""Tasks that stand for one of the reader's, and one of the same kind that is there."""


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        place: File and line.
        words: As a shell would split them, without settings of the environment and comments.
        gpu: Whether it stands in a block that needs a GPU.
    """

    place: str
    words: tuple[str, ...]
    gpu: bool

    @property
    def program(self) -> str:
        """The script, or the name of the program."""
        return next((word for word in self.words if word.startswith("scripts/")), self.words[0])

    @property
    def options(self) -> list[str]:
        """What follows the script; everything for other programs."""
        return list(self.words[self.words.index(self.program) + 1 :])

    def __str__(self) -> str:
        return f"{self.place}: {shlex.join(self.words)}"


def pages(repo: Path) -> list[Path]:
    """README.md and every page of docs/."""
    return [repo / "README.md", *sorted((repo / "docs").rglob("*.md"))]


def commands(repo: Path) -> list[Command]:
    """All commands, in the order of the pages."""
    return [command for page in pages(repo) for command in commands_of(page.read_text(), str(page.relative_to(repo)))]


def commands_of(text: str, name: str) -> list[Command]:
    """Commands of one page: the lines of fenced blocks, and code spans that begin like one."""
    lines, fence, gpu = text.splitlines(), "", False
    found: list[tuple[int, str, bool]] = []
    prose: list[str] = []
    block = ""
    for number, line in enumerate(lines, 1):
        mark = re.match(r"\s*(```+)(.*)", line)
        if mark and (not fence or mark[1] == fence):
            fence, gpu = ("", False) if fence else (mark[1], GPU in mark[2])
            prose.append("")
        elif fence:
            prose.append("")
            block += line.rstrip().removesuffix("\\")
            if not line.rstrip().endswith("\\"):
                found.append((number, block, gpu))
                block = ""
        else:
            prose.append(line)
    whole = "\n".join(prose)
    for span in re.finditer(r"(?<!`)`([^`]+)`(?!`)", whole):
        found.append((whole.count("\n", 0, span.start()) + 1, " ".join(span[1].split()), False))
    found.sort(key=lambda item: item[0])
    # A page may name options before the line that lists them.
    names = {match[1]: match[2] for match in re.finditer(r'^(\w+)="([^"\n]+)"$', text, re.MULTILINE)}
    made = (
        Command(f"{name}:{number}", tuple(words), on) for number, line, on in found for words in _words(line, names)
    )
    return [command for command in made if command.words]


def _words(line: str, names: dict[str, str]) -> list[list[str]]:
    """The commands in a line: itself, or what it runs within ``$(...)``."""
    line = re.sub(r"\$(\w+)", lambda match: names.get(match[1], match[0]), line.strip())
    inner = [text for text in re.findall(r"\$\(([^()]*)\)", line) if OURS.match(text)]
    texts = [line] if OURS.match(line) else inner
    made = []
    for text in texts:
        words = [word for word in shlex.split(text, comments=True) if not re.fullmatch(r".*\.\.\.", word)]
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            del words[0]
        made.append([PLACEHOLDERS.get(word, word) for word in words])
    return made
