#!/usr/bin/env bash
# The environment of `make docs`, .venv-docs: what the extra `docs` of pyproject.toml lists, and nothing else. Pages are
# made from the source text, so that neither Isaac Lab nor this package is installed in it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv="${FLASHNERD_DOCS_VENV:-$root/.venv-docs}"
stamp="$venv/.flashnerd-docs"

fail() { echo "error: $*" >&2; exit 1; }

python=$("$root/scripts/setup/find_python.sh")
wanted=$("$python" - "$root/pyproject.toml" <<'END'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["docs"], sep="\n")
END
)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi
if [ ! -x "$venv/bin/pip" ]; then
    echo "docs: making $venv with $python"
    "$python" -m venv "$venv"
fi
begun=$SECONDS
mapfile -t packages <<<"$wanted"
"$venv/bin/python" -m pip install --disable-pip-version-check -q "${packages[@]}" \
    || fail "pip could not install the packages (its own message is above): check the network, then type make docs again."
echo "$wanted" >"$stamp.partial"
mv "$stamp.partial" "$stamp"
echo "docs: installed in $((SECONDS - begun)) s"
