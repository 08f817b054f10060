"""A report that is one HTML file: tables, pictures and clips are inside it, so it can be mailed or opened offline.

A report is a list of :class:`Section`; a section is a list of blocks (:class:`Text`, :class:`Table`,
:class:`Picture`, :class:`Clip`, :class:`Command`). All text is escaped; nothing is fetched when it is shown.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_write

_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text."""

    text: str

    def render(self) -> str:
        return f"<p>{_escape(self.text)}</p>"


@dataclass(frozen=True)
class Table:
    """Rows of cells that are already formatted; the first column is left, the others right aligned."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    best: Sequence[tuple[int, int]] = ()
    """(row, column) of cells to set in bold."""

    def render(self) -> str:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise FlashNerdError(
                    f"row {number} of a table has {len(row)} cells, but its header has {len(self.header)}."
                )
        caption = f"<caption>{_escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f'<th scope="col">{_escape(cell)}</th>' for cell in self.header)
        body = "".join(
            "<tr>" + "".join(self._cell(number, column, cell) for column, cell in enumerate(row)) + "</tr>\n"
            for number, row in enumerate(self.rows)
        )
        return (
            f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'
        )

    def plain(self) -> str:
        """The table for a terminal."""
        lines = [list(self.header), *(list(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        texts = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.caption] if self.caption else []), *texts])

    def _cell(self, row: int, column: int, cell: str) -> str:
        text = _escape(cell)
        if (row, column) in self.best:
            text = f"<strong>{text}</strong>"
        return f'<th scope="row">{text}</th>' if column == 0 else f"<td>{text}</td>"


@dataclass(frozen=True)
class Picture:
    """An image file, embedded; ``caption`` is also its alternative text."""

    path: Path
    caption: str

    def render(self) -> str:
        caption = _escape(self.caption)
        return f'<figure><img src="{embed(self.path)}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'


@dataclass(frozen=True)
class Clip:
    """A video file, embedded; it plays in a loop without sound."""

    path: Path
    caption: str

    def render(self) -> str:
        source = embed(self.path)
        return (
            f'<figure><video src="{source}" autoplay loop muted playsinline controls></video>'
            f"<figcaption>{_escape(self.caption)}</figcaption></figure>"
        )


@dataclass(frozen=True)
class Command:
    """The command line that made what stands above it."""

    line: str

    def render(self) -> str:
        return f'<pre class="command">{_escape(self.line)}</pre>'


Block = Text | Table | Picture | Clip | Command


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)

    def render(self) -> str:
        inner = "\n".join(block.render() for block in self.blocks)
        return f"<section>\n<h2>{_escape(self.title)}</h2>\n{inner}\n</section>"


def embed(path: str | Path) -> str:
    """The file's content as a ``data:`` address.

    Raises:
        FlashNerdError: If the file is missing, empty or of a kind that browsers do not show.
    """
    path = Path(path)
    kind = _TYPES.get(path.suffix.lower())
    if kind is None:
        raise FlashNerdError(f"'{path}' cannot go into a report: its ending must be one of {', '.join(_TYPES)}.")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FlashNerdError(f"the report's file '{path}' cannot be read: {error.strerror or error}.") from None
    if not raw:
        raise FlashNerdError(f"the report's file '{path}' is empty: make it anew.")
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"


def number(value: float | None, digits: int = 3) -> str:
    """A figure for a table: ``digits`` significant digits; ``-`` for None, ``diverged`` where it is not finite."""
    if value is None:
        return "-"
    if value != value or value in (float("inf"), float("-inf")):
        return "diverged"
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e" in text or abs(value) >= 10**digits else text


def write_report(
    path: str | Path, title: str, sections: Sequence[Section], lead: str = "", facts: Sequence[tuple[str, str]] = ()
) -> Path:
    """Write the report; the file appears whole or not at all.

    Args:
        path: The HTML file.
        title: Heading and window title.
        sections: The body, in order.
        lead: One paragraph under the heading.
        facts: Name and value of what a figure depends on (machine, versions, revision), shown at the foot.
    """
    body = "\n".join(section.render() for section in sections)
    rows = "".join(f"<dt>{_escape(name)}</dt><dd>{_escape(value)}</dd>" for name, value in facts)
    foot = f"<footer><dl>{rows}</dl></footer>" if rows else ""
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{_escape(title)}</h1>\n<p class="lead">{_escape(lead)}</p>\n{body}\n{foot}\n</main>\n</body>\n</html>\n'
    )
    return atomic_write(path, page)


def _escape(text: str) -> str:
    return html.escape(str(text), quote=True)


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #ffffff;
  --tint: #f3f5f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa4af; --line: #3a424b; --paper: #14171a;
  --tint: #1e2329; } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { max-width: 44rem; margin: .6rem 0; }
.lead { font-size: 1.1rem; color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); text-align: right; font-weight: 400; }
th:first-child { text-align: left; }
thead th { color: var(--soft); font-size: .9rem; vertical-align: bottom; }
figure { margin: 1rem 0; }
img, video { max-width: 100%; border-radius: 4px; background: #fff; }
figcaption { color: var(--soft); font-size: .92rem; max-width: 44rem; }
.command { background: var(--tint); padding: .6rem .8rem; border-radius: 4px; overflow-x: auto; font-size: .85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .88rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
"""
