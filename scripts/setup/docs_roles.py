"""A hook of MkDocs for the reference: Sphinx's roles in docstrings become plain code, as Markdown knows none."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):\s*<code>(~?)([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`~a.b.C``` as ``C``, and a name without the tilde as it is; called by MkDocs with each page's HTML."""
    return _ROLE.sub(lambda found: f"<code>{found[2].rsplit('.', 1)[-1] if found[1] else found[2]}</code>", html)
