#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image. It makes a Python environment for Headway.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

find_python() {  # the first Python that is new enough and can make an environment
    for python in python3 python3.13 python3.12 python3.11; do
        "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$python" && return
    done
    return 1
}

if ! find_python > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y python3.12 python3.12-venv || apt-get install -y python3.11 python3.11-venv
fi
python="$(find_python)" || { echo "Headway needs Python 3.11 or newer; choose a newer base image (Ubuntu 24.04)."; exit 1; }

"$python" -m venv "$here/venv"
cd "$here/kit"
index=TORCH_INDEX  # a package index with a CPU build of torch, which is much smaller; empty: the usual index
"$here/venv/bin/python" -m pip install -c constraints.txt ${index:+--index-url "$index"} torch || {
    echo "torch could not be installed from ${index:-the usual index}. Make the archive again with another headway gradescope --torch-index ADDRESS."
    exit 1
}
"$here/venv/bin/python" -m pip install -c constraints.txt -e .

umask 077  # the secret decides which examples are drawn besides the common ones
[ -s "$here/secret" ] || "$here/venv/bin/python" -c 'import secrets; print(secrets.token_hex(16))' > "$here/secret"
