"""Asks git for the time of a clone's last commit.

Git runs programs that a clone's own configuration names, and the clone is a stranger's. So git works in a new
repository, which has only the clone's references and takes the objects from the clone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

from grader.classroom.intake.files import plausible_time

GIT_SECONDS = 30


def read_commit_time(folder: Path) -> datetime | None:
    """The committer's time of HEAD; None if this is no git clone, it does not show the time, or there is no git."""
    git = folder / ".git"
    if git.is_symlink() or not git.is_dir():
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="headway-") as place:
            commit = _show_head(git, Path(place) / "repository")
    except (OSError, ValueError, shutil.Error, subprocess.SubprocessError):
        return None
    header = commit.partition("\n\n")[0]
    committer = re.search(r"^committer .*> (\d{1,12}) [+-]\d{4}$", header, re.MULTILINE)
    return plausible_time(int(committer[1])) if committer else None


def _show_head(git: Path, repository: Path) -> str:
    shutil.copytree(git / "refs", repository / "refs", symlinks=True)
    (repository / "objects").mkdir()
    for name in ("HEAD", "packed-refs"):
        if (git / name).is_file():
            shutil.copy(git / name, repository, follow_symlinks=False)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_DIR": str(repository),
        "GIT_OBJECT_DIRECTORY": str(git / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    done = subprocess.run(
        ["git", "cat-file", "commit", "HEAD"], env=environment, capture_output=True, timeout=GIT_SECONDS, check=True
    )
    return done.stdout.decode("utf-8", "replace")
