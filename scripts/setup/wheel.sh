#!/usr/bin/env bash
# `make test-wheel`: build the wheel, install it alone in a fresh environment, and use it from an empty folder as a
# person would: bundles, a rollout, the list of tasks, a short training. 9 GB and some minutes; removed afterwards
# (FLASHNERD_KEEP=1 keeps it).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv="${FLASHNERD_WHEEL_VENV:-$root/.venv-wheel}"
needed_gb=10

say() { echo "wheel: $*"; }
fail() { echo "error: $*" >&2; exit 1; }

work=$(mktemp -d)
clean() {
    rm -rf "$work"
    if [ -z "${FLASHNERD_KEEP:-}" ] && [ -f "$venv/.flashnerd-wheel" ]; then rm -rf "$venv"; fi
}
trap clean EXIT

if [ -e "$venv" ] && [ ! -f "$venv/.flashnerd-wheel" ]; then
    fail "$venv exists and was not made by this script: move it away, or name another with FLASHNERD_WHEEL_VENV."
fi
rm -rf "$venv"
free=$(df -Pk "$(dirname "$venv")" | awk 'NR == 2 { print int($4 / 1048576) }')
[ "$free" -ge "$needed_gb" ] || fail "only $free GB are free for $venv, but about $needed_gb GB are needed: make room, or set FLASHNERD_WHEEL_VENV."

python=$("$root/scripts/setup/find_python.sh")
"$python" -m venv "$venv"
touch "$venv/.flashnerd-wheel"
pip=("$venv/bin/python" -m pip --disable-pip-version-check)

# From a copy, since setuptools writes beside setup.py.
mkdir "$work/tree" "$work/empty"
for name in pyproject.toml setup.py extension.toml README.md LICENSE source tasks; do cp -r "$root/$name" "$work/tree/"; done
find "$work/tree" \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
"${pip[@]}" wheel -q --no-deps -w "$work/wheels" "$work/tree" || fail "the wheel could not be built (see above)."
wheel=$(echo "$work"/wheels/*.whl)
say "built $(basename "$wheel"), $(du -k "$wheel" | cut -f1) KiB"

begun=$SECONDS
"${pip[@]}" install -q "$wheel" || fail "the wheel could not be installed (pip's message is above)."
say "installed with what it needs in $((SECONDS - begun)) s"

begun=$SECONDS
cp "$root/scripts/setup/wheel_smoke.py" "$work/smoke.py"
cd "$work/empty"
env -u PYTHONPATH -u ISAACSIM_ASSET_ROOT PATH="$venv/bin:$PATH" "$venv/bin/python" "$work/smoke.py"
say "used in $((SECONDS - begun)) s"
