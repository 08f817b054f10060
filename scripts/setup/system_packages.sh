#!/usr/bin/env bash
# The four Debian packages that let Newton draw pictures without a display (OpenGL through EGL and llvmpipe).
# Installs what is missing where it may (root and apt-get), else says what to type. Never fails: without them
# clips come from the Warp camera. FLASHNERD_SYSTEM_PACKAGES=0 leaves the system alone.
set -u

packages=(libegl1 libegl-mesa0 libgl1-mesa-dri libgl1)

installed() { # by dpkg where there is one, else by the library that each is there for
    if command -v dpkg-query >/dev/null 2>&1; then
        dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'
    else
        ldconfig -p 2>/dev/null | grep -q 'libEGL\.so\.1'
    fi
}

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "pictures: libraries for drawing without a display are there"
    exit 0
fi
command="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "${FLASHNERD_SYSTEM_PACKAGES:-1}" = 0 ] || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "pictures: ${missing[*]} not installed; clips will come from the slower Warp camera. To add: sudo $command"
    exit 0
fi
echo "pictures: $command"
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh image are empty, of an old one stale; so update when the plain install fails, too.
if ! { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1; then
    echo "pictures: apt-get could not install ${missing[*]}; clips will come from the slower Warp camera"
fi
exit 0
