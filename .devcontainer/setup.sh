#!/usr/bin/env bash
# Runs once, when the container is made: installs Headway with its language server. TORCH_INDEX, if it is set (in
# Codespaces as a secret), is the address of a package index with a CPU build of torch, which is much smaller.
set -eu
cd "$(dirname "$0")/.."
make .venv/.learn
.venv/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[editor]"
echo ". '$PWD/.venv/bin/activate'" >> ~/.bashrc
