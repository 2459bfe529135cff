"""A command whose checkpoints/ is on a full disk: a file system in memory, which only this command and its shell see."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from kit_copy import Kit

OTHERS_CHANGED = 99
SCRIPT = f"""
mkdir -p full
mount -t tmpfs -o size=64m none full || exit 98
cp -a checkpoints/. full
cat /dev/zero > full/zeros
mount --bind full checkpoints
"$@"; status=$?
umount checkpoints
rm full/zeros
diff -r checkpoints full || status={OTHERS_CHANGED}
exit $status
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
can_mount = shutil.which("unshare") and not subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True).returncode
needs_mounts = pytest.mark.skipif(not can_mount, reason="this machine lets no user mount a file system")


def run_on_full_disk(kit: Kit, *arguments: str, **environment: str) -> str:
    """What the command prints. It must fail, and leave everything in checkpoints/ as it was."""
    command = [*NAMESPACE, "sh", "-c", SCRIPT, "sh", sys.executable, "-m", "grader.cli", *arguments]
    done = subprocess.run(command, cwd=kit.root, env=kit.environment(**environment), capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())
