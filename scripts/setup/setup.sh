#!/usr/bin/env bash
# The shared first half of `make demo` and `make test`: virtual environment, packages, local asset root.
# A second run does nothing: the stamp holds a hash of what decides the installation.
# With --packages-only it stops before the system libraries and the asset root (an image's slow layer).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here="$root/scripts/setup"
venv="${FLASHNERD_VENV:-$root/.venv}"
extras="${FLASHNERD_EXTRAS:-dev}"
stamp="$venv/.flashnerd-setup"
needed_gb=10
started=$SECONDS

packages_only=""
case "${1:-}" in
    "") ;;
    --packages-only) packages_only=yes ;;
    *) echo "error: unknown argument '$1': type setup.sh, or setup.sh --packages-only." >&2; exit 2 ;;
esac

say() { echo "setup: $*"; }
fail() { echo "error: $*" >&2; exit 1; }

fingerprint() {
    { printf '%s\n' "$extras" "$root"; cat "$root/pyproject.toml" "$root/setup.py" "$root/extension.toml"; } \
        | sha256sum | cut -d' ' -f1
}
is_312() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1; }

# Two makes at once must not install into one environment: the second waits.
lock="$root/.setup.lock"
if command -v flock >/dev/null 2>&1; then
    exec 9>"$lock"
    if ! flock -n 9; then
        say "another setup is running here, waiting for it"
        flock 9
    fi
fi

want=$(fingerprint)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && is_312 "$venv/bin/python"; then
    say "$venv is up to date"
else
    if [ -e "$venv" ] && ! is_312 "$venv/bin/python"; then
        [ -f "$venv/pyvenv.cfg" ] || fail "$venv exists but is no virtual environment: move it away, then type make setup."
        say "$venv has no working Python 3.12, making it anew"
        rm -rf "$venv"
    fi
    if [ ! -x "$venv/bin/pip" ]; then
        python=$("$here/find_python.sh")
        say "making $venv with $python"
        "$python" -m venv "$venv"
    fi
    free=$(df -Pk "$venv" | awk 'NR == 2 { print int($4 / 1048576) }')
    if [ ! -d "$venv/lib/python3.12/site-packages/torch" ] && [ "$free" -lt "$needed_gb" ]; then
        fail "only $free GB are free under $venv, but the packages need about $needed_gb GB: make room, or set FLASHNERD_VENV to a folder on another disk."
    fi
    say "installing Isaac Lab 3.0 and this package (about 9 GB on disk, some 5 minutes on a fast line)"
    begun=$SECONDS
    quiet=()
    [ -t 1 ] || quiet=(--progress-bar off)
    if [ -n "${CI:-}" ]; then quiet=(-q); fi
    "$venv/bin/python" -m pip install --disable-pip-version-check "${quiet[@]}" -e "$root${extras:+[$extras]}" \
        || fail "pip could not install the packages (its own message is above): check the network and the free disk space, then type make setup again; what was downloaded is kept."
    echo "$want" >"$stamp.partial"
    mv "$stamp.partial" "$stamp"
    say "installed in $((SECONDS - begun)) s"
fi

if [ -n "$packages_only" ]; then exit 0; fi

"$here/system_packages.sh" | sed 's/^/setup: /'

begun=$SECONDS
say "local asset root"
"$venv/bin/python" -m flashnerd_ext.robots.assets.build \
    || fail "the local asset root could not be built (see above)."
say "asset root ready in $((SECONDS - begun)) s"
say "done in $((SECONDS - started)) s"
