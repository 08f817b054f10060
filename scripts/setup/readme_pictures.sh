#!/usr/bin/env bash
# The README's pictures from the results of `make demo`, and of those scripts/demos that were run (type make pictures).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
demo="$root/demo"
images="$root/docs/images"
python="${FLASHNERD_VENV:-$root/.venv}/bin/python"

for file in policy.mp4 dynamics.mp4 dynamics.png; do
    [ -s "$demo/$file" ] || { echo "error: $demo/$file is not there: type make demo first." >&2; exit 1; }
done
ffmpeg=$("$python" -c "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())")
mkdir -p "$images"

gif() { # SOURCE TARGET FILTERS COLOURS [FRAMES A SECOND]
    "$ffmpeg" -loglevel error -y -i "$1" \
        -vf "fps=${5:-15},$3,split[a][b];[a]palettegen=max_colors=$4[p];[b][p]paletteuse=dither=none" "$2"
}

gif "$demo/policy.mp4" "$images/policy.gif" "crop=960:400:0:60,scale=640:-1:flags=lanczos" 64
gif "$demo/dynamics.mp4" "$images/overlay.gif" "scale=640:-1:flags=lanczos" 32
cp "$demo/dynamics.png" "$images/error.png"
for demo in cartpole anymal_walk swing_up_gradient; do
    clip="$root/outputs/demos/$demo/$demo.mp4"
    [ ! -s "$clip" ] || gif "$clip" "$images/demo_$demo.gif" "scale=720:-1:flags=lanczos" 64 10
done
ls -l "$images"
