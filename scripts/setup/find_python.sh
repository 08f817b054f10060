#!/usr/bin/env bash
# Print the path of a Python 3.12 that can make virtual environments, or say in one sentence what to install.
# Looked at in this order: $PYTHON, the PATH, pyenv's versions, uv's versions.
set -u

works() { # PATH-OR-NAME: true when it starts, is a 3.12, and has venv and pip to put into one
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1
}
is_312() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1; }
resolved() { "$1" -c 'import sys; print(sys.executable)'; }

if [ -n "${PYTHON:-}" ]; then
    if works "$PYTHON"; then
        resolved "$PYTHON"
        exit 0
    fi
    found=$("$PYTHON" -c 'import platform; print("is Python " + platform.python_version())' 2>/dev/null || echo "does not start")
    if is_312 "$PYTHON"; then
        echo "error: PYTHON=$PYTHON is a Python 3.12 without its venv module: install it (Debian, Ubuntu: sudo apt-get install python3.12-venv)." >&2
    else
        echo "error: PYTHON=$PYTHON $found, but Isaac Lab 3.0 needs Python 3.12: name one, or unset PYTHON to search for it." >&2
    fi
    exit 1
fi

candidates=()
for name in python3.12 python3 python; do
    while IFS= read -r path; do
        candidates+=("$path")
    done < <(type -aP "$name" 2>/dev/null)
done
for root in "${PYENV_ROOT:-}" "${HOME:-/nonexistent}/.pyenv"; do
    [ -n "$root" ] || continue
    while IFS= read -r path; do
        candidates+=("$path")
    done < <(printf '%s\n' "$root"/versions/3.12*/bin/python3.12 | sort -rV)
done
if command -v uv >/dev/null 2>&1; then
    path=$(uv python find --no-python-downloads 3.12 2>/dev/null) && candidates+=("$path")
fi

without_venv=""
for path in "${candidates[@]}"; do
    [ -x "$path" ] || continue
    if works "$path"; then
        resolved "$path"
        exit 0
    fi
    if [ -z "$without_venv" ] && is_312 "$path"; then
        without_venv=$path
    fi
done
if [ -n "$without_venv" ]; then
    echo "error: $without_venv is a Python 3.12 without its venv module: install it (Debian, Ubuntu: sudo apt-get install python3.12-venv)." >&2
else
    echo "error: no Python 3.12 was found on the PATH, in pyenv or in uv, and Isaac Lab 3.0 runs on no other:" \
        "install one (sudo apt-get install python3.12 python3.12-venv, or pyenv install 3.12, or uv python install 3.12)," \
        "or type make setup PYTHON=/path/to/python3.12." >&2
fi
exit 1
