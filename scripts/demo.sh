#!/bin/bash
# Installs missing packages, builds Quern, converts the digit classifier and shows it ten pictures that it has never
# seen.
set -euo pipefail
. "$(dirname "$0")/common.sh"
scripts/setup.sh build
configure build/release --preset release -DQUERN_BUILD_TESTS=OFF >/dev/null
cmake --build build/release --target quern

quern=build/release/src/tool/quern
digits=examples/digits
# The network was trained on (pixel - 127.5) / 127.5; these flags store the formula in the converted model.
"$quern" convert "$digits/digits.onnx" -o build/release/digits.qn --mean 127.5 --scale 0.00784314
"$quern" run build/release/digits.qn --input "$digits"/digit_?.png --labels "$digits/labels.txt" --top 1 |
  awk -v labels="$digits/labels.txt" '
    BEGIN { while ((getline name < labels) > 0) names[count++] = name
            printf "\n%-34s %-8s %10s %12s\n", "picture", "seen", "confidence", "time" }
    /\.png/ { file = $1; time = $2; digit = file; gsub(/.*digit_|\.png$/, "", digit); next }
    file != "" { right += ($2 == names[digit]); shown++
                 printf "%-34s %-8s %9.2f%% %9.3f ms\n", file, $2, 100 * $1, time; file = "" }
    END { printf "\n%d of %d right\n", right, shown
          exit !(shown == 10 && right >= 9) }'
