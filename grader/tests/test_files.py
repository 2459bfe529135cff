"""A file that cannot be written is named, and not the temporary file or the folder that the system names."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from grader.files import NotWritten, write_whole
from kit_copy import posix

NOBODY = 65534


def refusal(path: Path) -> NotWritten:
    with pytest.raises(NotWritten) as raised:
        write_whole(path, "text")
    return raised.value


def test_the_error_names_the_file(tmp_path):
    (tmp_path / "file").write_text("")
    inside, long = tmp_path / "file" / "kept" / "softmax.py", tmp_path / ("x" * 300)
    assert (refusal(inside).filename, refusal(long).filename) == (str(inside), str(long))
    assert os.listdir(tmp_path) == ["file"]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    write_whole(tmp_path / ("x" * 250), "text")
    assert os.listdir(tmp_path) == ["x" * 250]


@posix
def test_in_a_folder_that_is_read_only_it_names_the_file_too():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        process = os.fork()
        if process == 0:
            status = 1
            try:
                if os.getuid() == 0:  # root may write everywhere
                    os.setuid(NOBODY)
                write_whole(Path(folder) / "file.txt", "text")
            except NotWritten as error:
                status = 0 if (error.filename, error.strerror) == (f"{folder}/file.txt", "Permission denied") else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        os.chmod(folder, 0o755)


@posix
def test_a_command_says_which_file_it_could_not_write(kit):
    """The saved code fits below the limit, and the chapter does not."""
    kit.edit("ch03_attention", "raise NotImplementedError", "return x")
    before = kit.file("ch03_attention").read_bytes()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    done = subprocess.run(
        [sys.executable, "-m", "grader.cli.main", "reset", "softmax"], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, preexec_fn=limit
    )
    assert (done.returncode, done.stderr) == (1, "headway: could not write exercises/ch03_attention.py: file too large\n")
    assert kit.file("ch03_attention").read_bytes() == before and not list(kit.exercises.glob(".*.tmp"))
