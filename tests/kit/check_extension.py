"""Start this checkout's extension in a headless Kit and fail on any logged error: run by the Python that has Kit.

python tests/kit/check_extension.py CHECKOUT

Kit runs in a process of its own, which its shutdown ends.
Kit calls an extension enabled even when its module is missing or on_startup raises. So the log is read, and the running
extension is asked for its rows. The last line is ``ok: ...`` with exit code 0, or ``failed: ...`` with 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_SERIOUS = re.compile(r"\[(Error|Fatal)\]")
_UPDATES = 10
_TIMEOUT = 300


def main() -> int:
    checkout = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="flashnerd-kit-") as name:
        folder = Path(name)
        (folder / "extensions").mkdir()
        (folder / "extensions" / "flashnerd").symlink_to(checkout)
        log, facts_file = folder / "kit.log", folder / "facts.json"
        command = [sys.executable, __file__, "--child", str(folder / "extensions"), str(log), str(facts_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        text = log.read_text(errors="replace") if log.is_file() else ""
        found = [line for line in text.splitlines() if _SERIOUS.search(line)]
        if facts_file.is_file() and done.returncode == 0:
            facts = json.loads(facts_file.read_text())
            found = [*problems(facts, checkout), *found]
        else:
            facts = {}
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            found.append(f"Kit ended with code {done.returncode} and left no facts: {last}")
    for line in found:
        print(f"error: {line}")
    if found:
        print(f"failed: {len(found)} problems")
        return 1
    window = "a window" if facts["window"] else "no window (this Kit has no omni.ui)"
    print(f"ok: flashnerd {facts['version']} in Kit {facts['kit']}: {len(facts['bundles'])} bundles listed, {window}")
    return 0


def child(extensions: Path, log: Path, facts: Path) -> None:
    """Run Kit; the facts are written before its shutdown ends this process."""
    app, found = start(extensions, log)
    facts.write_text(json.dumps(found))
    app.shutdown()


def start(extensions: Path, log: Path) -> tuple[Any, dict[str, Any]]:
    """Run Kit for some updates with the extension, then stop the extension; the application, and what was seen."""
    from omni.kit_app import KitApp  # type: ignore[import-not-found]

    app = KitApp()
    app.startup(
        ["--no-window", "--allow-root", f"--/log/file={log}", "--/log/fileLogLevel=info"]
        + ["--ext-folder", str(extensions), "--enable", "flashnerd"]
    )
    for _ in range(_UPDATES):
        app.update()
    import omni.kit.app  # type: ignore[import-not-found]

    kit = omni.kit.app.get_app()
    manager = kit.get_extension_manager()
    [found] = [item for item in manager.get_extensions() if item["name"] == "flashnerd"]
    module = sys.modules.get("flashnerd_ext.ui.extension")
    running = getattr(getattr(module, "FlashNerdExtension", None), "running", None)
    facts: dict[str, Any] = {
        "kit": kit.get_kit_version(),
        "enabled": bool(found["enabled"]),
        "version": ".".join(str(part) for part in found["version"][:3]),
        "running": running is not None,
        "bundles": {} if running is None else {row.name: row.problem for row in running.model.bundles},
        "window": running is not None and running.window is not None,
        "modules": sorted(name for name in sys.modules if name.split(".")[0] == "flashnerd_ext"),
    }
    del running  # Kit warns of an extension that something still holds
    manager.set_extension_enabled_immediate(found["id"], False)
    facts["stopped"] = getattr(getattr(module, "FlashNerdExtension", None), "running", None) is None
    for _ in range(_UPDATES):
        app.update()
    return app, facts


def problems(facts: dict[str, Any], checkout: Path) -> list[str]:
    """What is not as it must be, one line each."""
    import tomllib

    settings = tomllib.loads((checkout / "extension.toml").read_text())
    shipped = {path.parent.name for path in checkout.glob("source/flashnerd_ext/bundle/shipped/*/card.json")}
    found = []
    if not facts["enabled"]:
        found.append("Kit did not enable the extension")
    if facts["version"] != settings["package"]["version"]:
        found.append(f"Kit read version {facts['version']}, but extension.toml says {settings['package']['version']}")
    for module in settings["python"]["module"]:
        if module["name"] not in facts["modules"]:
            found.append(f"the module {module['name']} was not imported")
    if not facts["running"]:
        found.append("on_startup did not come to its end")
    if facts["running"] and set(facts["bundles"]) != shipped:
        found.append(f"the window lists the bundles {sorted(facts['bundles'])}, but {sorted(shipped)} are shipped")
    found += [f"the bundle {name} is listed with a problem: {text}" for name, text in facts["bundles"].items() if text]
    if not facts["stopped"]:
        found.append("on_shutdown did not come to its end")
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(*map(Path, sys.argv[2:5]))
    sys.exit(main())
