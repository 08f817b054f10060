#!/usr/bin/env bash
# The environment of `make test-kit`: Omniverse Kit's kernel from PyPI (223 MB) in a folder of its own, .venv-kit.
# Kit is NVIDIA's and asks for agreement to its licence, which is the user's to give: nothing here sets the variable.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv="${FLASHNERD_KIT_VENV:-$root/.venv-kit}"
wanted="$root/tests/kit/requirements.txt"
stamp="$venv/.flashnerd-kit"
licence="https://docs.omniverse.nvidia.com/platform/latest/common/NVIDIA_Omniverse_License_Agreement.html"

fail() { echo "error: $*" >&2; exit 1; }

case "$(printf '%s' "${OMNI_KIT_ACCEPT_EULA:-}" | tr '[:upper:]' '[:lower:]')" in
    y | yes | 1) ;;
    *) fail "OMNI_KIT_ACCEPT_EULA is '${OMNI_KIT_ACCEPT_EULA:-}', but Omniverse Kit runs only for who agrees to NVIDIA's licence ($licence): read it, and if you do, type OMNI_KIT_ACCEPT_EULA=YES make test-kit." ;;
esac

if [ -f "$stamp" ] && cmp -s "$stamp" "$wanted"; then
    echo "kit: $venv is up to date"
    exit 0
fi
if [ ! -x "$venv/bin/pip" ]; then
    python=$("$root/scripts/setup/find_python.sh")
    echo "kit: making $venv with $python"
    "$python" -m venv "$venv"
fi
begun=$SECONDS
"$venv/bin/python" -m pip install --disable-pip-version-check -q -r "$wanted" \
    || fail "pip could not install Omniverse Kit (its own message is above): check the network, then type make test-kit again."
cp "$wanted" "$stamp.partial"
mv "$stamp.partial" "$stamp"
echo "kit: installed in $((SECONDS - begun)) s"
