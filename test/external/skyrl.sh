#!/usr/bin/env bash
# Installs SkyRL tx for the CPU into a virtual environment outside the repository and runs the proof beside it:
#   test/external/skyrl.sh FOLDER     (Linux on x86-64, Python 3.12, named by PYTHON if it is called otherwise; about 6 GB, half an
#                                      hour on two cores)
set -euo pipefail
folder=$(realpath -m "${1:?the folder of the virtual environment}")
cd "$(dirname "$0")/../.."
if [ ! -d "$folder/lib" ]; then
  "${PYTHON:-python3.12}" -m venv "$folder"
  "$folder/bin/pip" install --quiet "skyrl-tx[tinker]==0.3.0" jax==0.12.0.1 flax==0.12.12 optax==0.2.8
  # The server starts its engine with uv, which would set up another environment.
  cat > "$folder/bin/uv" <<'UV'
#!/bin/sh
while [ "$1" != "-m" ]; do shift; done
exec "$(dirname "$0")/python" "$@"
UV
  chmod +x "$folder/bin/uv"
fi
ANNEAL_TEST_SKYRL="$folder" npm test -- test/external/skyrl.test.ts
