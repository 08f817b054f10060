"""One running simulation, seen in a real browser through viser, read back from rerun's recording, and its ghost."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
CHILD = Path(__file__).with_name("viewers_child.py")
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
PATIENCE = 240_000
"""Longest wait for the browser [ms]; it draws in software, and may have a fraction of a core."""
SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = [int(found.getsockname()[1]) for found in sockets]
    for found in sockets:
        found.close()
    return ports


def browser_problem() -> str | None:
    """Why no browser can be driven here, or None."""
    advice = "pip install playwright, and apt-get install chromium (or playwright install chromium)"
    if find_spec("playwright") is None:
        return f"playwright is not installed: {advice}"
    if not any(shutil.which(name) for name in BROWSERS) and not any(
        Path.home().joinpath(".cache/ms-playwright").glob("chromium*")
    ):
        return f"there is no Chromium: {advice}"
    return None


def cart(picture: np.ndarray) -> tuple[int, float, float]:
    """Blue pixels in the middle of the page [H, W, 3] (the carts are the only blue thing there), and where they are.

    Left out: viser's panel on the right, its notice at the top, its axes in the corner.
    """
    height, width = picture.shape[:2]
    scene = picture[int(0.38 * height) :, 90 : int(0.62 * width)].astype(np.int16)
    rows, columns = np.nonzero(scene[..., 2] - scene[..., 0] > 25)
    return len(rows), float(rows.mean()) if len(rows) else 0.0, float(columns.mean()) if len(rows) else 0.0


def watch(port: int, folder: Path) -> dict[str, Any]:
    """Open the page, wait for the scene, and look until the cart has moved."""
    import imageio.v2 as imageio
    from playwright.sync_api import sync_playwright

    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    messages: list[str] = []
    seen: list[tuple[int, float, float]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=SOFTWARE_GL)
        page = browser.new_page(viewport={"width": 900, "height": 520})
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}", timeout=PATIENCE)
        page.wait_for_selector("canvas", timeout=PATIENCE)
        until = time.monotonic() + PATIENCE / 1000
        # The scene comes after the page, mesh by mesh.
        while time.monotonic() < until and not moved(seen):
            raw = page.screenshot(timeout=PATIENCE)
            picture = np.asarray(imageio.imread(io.BytesIO(raw)))[..., :3]
            seen.append(cart(picture))
            (folder / f"page{len(seen) % 2}.png").write_bytes(raw)
        browser.close()
    return {"seen": seen, "errors": messages}


def moved(seen: list[tuple[int, float, float]]) -> bool:
    """Whether a cart of at least 20 pixels stood at two places at least 3 pixels apart."""
    places = np.array([place for count, *place in seen if count >= 20])
    return len(places) >= 2 and bool(np.ptp(places, axis=0).max() >= 3.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("isaaclab_visualizers")
    folder = tmp_path_factory.mktemp("viewers")
    viser, grpc, web = free_ports(3)
    command = [sys.executable, str(CHILD), str(folder), str(viser), str(grpc if find_spec("rerun") else 0), str(web)]
    with (folder / "child.log").open("w") as log:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert child.stdout is not None
            lines: list[str] = []
            for line in child.stdout:
                lines.append(line)
                if line.startswith("READY"):
                    break
            page = None
            if child.poll() is None and browser_problem() is None:
                try:
                    page = watch(viser, folder)
                except Exception as error:  # the other tests need the run, not the browser
                    page = {"errors": [f"{type(error).__name__}: {error}"]}
            rest, _ = child.communicate(timeout=300)
        finally:
            child.kill()
    found = [line for line in rest.splitlines() if line.startswith("RESULT")]
    assert found, ("".join(lines)[-1500:], rest[-1500:], (folder / "child.log").read_text()[-3000:])
    return {"folder": folder, "page": page, **json.loads(found[-1].removeprefix("RESULT"))}


def test_the_ghost_is_the_simulator_and_begins_where_the_learned_robot_does(run: dict[str, Any]) -> None:
    # Equal to the rounding of the float32 states that the simulation keeps.
    assert run["replayed"] < 1e-4
    assert run["restarts"] == 1
    assert 0.0 < max(run["errors"]) < 1e-2 and run["errors"][0] < 1e-3


def test_only_ghosts_are_transparent(run: dict[str, Any]) -> None:
    opacity, world = np.array(run["opacity"]), np.array(run["world"])
    assert (world == 1).any() and (opacity[world == 1] < 0.5).all() and (opacity[world == 0] == 1.0).all()


def test_the_recording_holds_the_motion(run: dict[str, Any]) -> None:
    chunks = pytest.importorskip("rerun.chunk", reason='no rerun: pip install "rerun-sdk>=0.41"')
    places: dict[str, list[np.ndarray]] = {}
    meshes = 0
    for chunk in chunks.RrdReader(run["folder"] / "run.rrd").stream():
        batch = chunk.to_record_batch()
        for name in batch.schema.names:
            if name.endswith("translations") and not chunk.is_static:
                rows = [np.array(row, np.float64) for row in batch.column(name).to_pylist() if row]
                places.setdefault(chunk.entity_path, []).extend(rows)
            meshes += name.endswith("vertex_positions")
    assert meshes > 0
    moved = {path: np.ptp([row[0] for row in rows], axis=0).max() for path, rows in places.items() if len(rows) > 10}
    # Cart and pole, of the learned robot and of its ghost; the rail stands.
    assert sum(way > 0.05 for way in moved.values()) >= 3, moved
    assert max(len(rows) for rows in places.values()) >= 40


def test_a_browser_shows_the_moving_robot(run: dict[str, Any]) -> None:
    problem = browser_problem()
    if problem is not None:
        pytest.skip(problem)
    page = run["page"]
    assert page["errors"] == []
    assert any(count >= 20 for count, *_ in page["seen"]), ("no cart on the page", page["seen"])
    assert moved(page["seen"]), ("the cart does not move", page["seen"])
