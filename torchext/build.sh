#!/bin/sh
# Builds the extension alone, for the torch of one Python, into FOLDER/kernelforge (a copy of the package that tests can import).
#
#   torchext/build.sh PYTHON FOLDER        e.g. torchext/build.sh .venv/bin/python /tmp/kf-ext
#   PYTHONPATH=FOLDER PYTHON -c 'import torch, kernelforge._C'
set -eu
python=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
package=$here/../bindings/python/kernelforge
facts=$("$python" - <<'PY'
import sysconfig
from torch.utils import cpp_extension as e
print(";".join(e.include_paths()))
print(";".join(e.library_paths()))
print(sysconfig.get_paths()["include"])
print(sysconfig.get_config_var("EXT_SUFFIX"))
PY
)
line() { printf '%s\n' "$facts" | sed -n "$1p"; }
mkdir -p "$folder/kernelforge"
for item in "$package"/*; do
  case $(basename "$item") in _C.* | lib | __pycache__) ;; *) ln -sfn "$item" "$folder/kernelforge/$(basename "$item")" ;; esac
done
cmake -S "$here" -B "$folder/build" -G Ninja -DKF_TESTS=OFF -DKF_OUTPUT="$folder/kernelforge" \
  -DKF_TORCH_INCLUDE="$(line 1)" -DKF_TORCH_LIB="$(line 2)" -DKF_PYTHON_INCLUDE="$(line 3)" -DKF_EXT_SUFFIX="$(line 4)" >"$folder/configure.log" || { cat "$folder/configure.log"; exit 1; }
nice -n 10 cmake --build "$folder/build" --parallel 2
