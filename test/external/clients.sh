#!/usr/bin/env bash
# Installs the newest published clients into a folder outside the repository and runs them against an engine of this one:
#   test/external/clients.sh FOLDER     (Python 3.10 or later, about 1 GB)
# Some say that they want Node 22; they run on 20 as well.
# A folder that has them is used as it is; remove it for newer ones.
set -euo pipefail
folder=$(realpath -m "${1:?the folder to install into}")
cd "$(dirname "$0")/../.."
if [ ! -d "$folder/python" ]; then
  mkdir -p "$folder"
  echo '{ "type": "module", "private": true }' > "$folder/package.json"
  # Named so, npm does not choose older ones for an older Node.
  npm install --prefix "$folder" --no-audit --no-fund --loglevel=error openai@latest ai@latest @openai/agents@latest \
    @ai-sdk/openai@latest @ai-sdk/open-responses@latest @langchain/core@latest @langchain/openai@latest \
    langchain@latest @mastra/core@latest zod@latest
  python3 -m venv "$folder/python"
  "$folder/python/bin/pip" install --quiet openai openpipe-art wandb
fi
ANNEAL_TEST_CLIENTS="$folder" npm test -- test/external/clients.test.ts
