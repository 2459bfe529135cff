"""A hostile archive affects only its own submission, and none takes much memory."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
import submission_archives
from grader.classroom.intake.files import Limits, list_members
from grader.classroom.intake.submission_content import MAX_ARCHIVE_LEVELS
from grader.classroom.intake.submissions import UnreadableSubmission
from grader.course.syllabus import ROOT
from submission_archives import (
    CHAPTER,
    DAMAGED,
    archive,
    by_name,
    patched,
    tar_header,
    tar_member,
    tarred,
    write,
    zipped,
)


def test_an_archive_with_a_path_that_leads_out_is_refused(tmp_path):
    for number, name in enumerate(("../x.py", "/etc/passwd", "a/../../x.py", "..\\x.py", "C:\\x.py", "C:/x.py", ".git/../../x")):
        write(tmp_path / f"{number}.zip", zipped({CHAPTER: "x", name: "y"}))
        write(tmp_path / f"tar{number}.tgz", tarred({CHAPTER: "x", name: "y"}))
    write(tmp_path / "inner.zip", zipped({"in.zip": zipped({"../x.py": "x", CHAPTER: "x"})}))
    write(tmp_path / "chi" / CHAPTER)
    found = by_name(tmp_path)
    assert not found.pop("chi").problem and len(found) == 15
    for person in found.values():
        assert person.problem.startswith("a file in the archive has a path outside of it (") and not person.sources, person


def test_links_and_devices_in_archives_are_not_followed(tmp_path):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        for name, kind, target in ((CHAPTER, tarfile.SYMTYPE, "/etc/passwd"), ("ch01_tokenizer.py", tarfile.LNKTYPE, "ch03_attention.py"), ("x", tarfile.CHRTYPE, "")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            out.addfile(info)
        info = tarfile.TarInfo("ch02_embeddings.py")
        info.size = 6
        out.addfile(info, io.BytesIO(b"x = 1\n"))
    found = archive(tmp_path / "a", tar.getvalue(), "alpha.tar")
    assert found.sources == {"ch02_embeddings": "x = 1\n"}
    assert [note for note in found.notes if "does not follow" in note] == [f"the file {n} is a link, which the grader does not follow" for n in (CHAPTER, "ch01_tokenizer.py")]
    link = zipfile.ZipInfo(CHAPTER)
    link.external_attr = 0o120777 << 16
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as out:
        out.writestr(link, "/etc/passwd")
    assert archive(tmp_path / "b", target.getvalue()).problem == "it contains no readable chapter: the file ch03_attention.py is a link, which the grader does not follow"


def test_a_password_and_an_unusual_compression_give_a_clear_message(tmp_path):
    found = archive(tmp_path, patched(zipped({CHAPTER: "x = 1\n"}), flags=1))
    assert found.problem == "the archive is protected by a password; submit it without one"
    strongly = archive(tmp_path, patched(zipped({CHAPTER: "x = 1\n"}), flags=1, method=99))
    assert strongly.problem == found.problem
    unusual = archive(tmp_path, patched(zipped({CHAPTER: "x = 1\n"}), method=97))
    assert unusual.problem == "the archive uses an unusual compression method; create a plain zip archive of the chapter files"


@pytest.mark.parametrize("pack, ending", [(zipped, ".zip"), (tarred, ".tgz")])
def test_an_archive_in_an_archive_is_opened(tmp_path, pack, ending):
    data = pack({f"hw/{CHAPTER}": "x"})
    for depth in range(1, MAX_ARCHIVE_LEVELS + 1):
        data = pack({f"inner{depth}{ending}": data})
        found = archive(tmp_path / str(depth), data, f"alpha{ending}")
        if depth < MAX_ARCHIVE_LEVELS:
            assert (found.sources, found.problem) == ({"ch03_attention": "x"}, ""), depth
    assert f"was not opened, because it is in {MAX_ARCHIVE_LEVELS} other archives" in found.problem and not found.sources


def test_names_in_a_zip_are_read_as_utf8_even_without_the_flag(tmp_path):
    said = zipped({f"José/{CHAPTER}": "j", f"李小龙/{CHAPTER}": "l"})
    silent = patched(said, flags=0)
    old = patched(zipped({f"Jxx/{CHAPTER}": "j", f"alpha/{CHAPTER}": "a"}), flags=0).replace(b"Jxx", b"J\x82x")
    for number, data in enumerate((said, silent)):
        assert list(by_name(write(tmp_path / f"{number}.zip", data))) == ["José", "李小龙"]
    assert list(by_name(write(tmp_path / "old.zip", old))) == ["Jéx", "alpha"]


@pytest.mark.parametrize("pack, mode", [(zipped, ""), (tarred, "w:gz"), (tarred, "w:")])
def test_an_incomplete_archive_gives_a_clear_message(tmp_path, pack, mode):
    content = "".join(f"x{number} = {number * number}\n" for number in range(3000))
    whole = pack({f"hw/{CHAPTER}": content}, *([mode] if mode else []))
    assert archive(tmp_path, whole).sources == {"ch03_attention": content}
    if mode == "w:":
        whole = whole[: 512 + len(content)]  # without the zeros behind everything
    for cut in (len(whole) - 200, len(whole) // 2, 20):
        found = archive(tmp_path, whole[:cut])
        assert found.problem == (DAMAGED if cut > 20 or mode != "w:" else "this file is not a valid archive; submit a zip or tar archive"), (mode, cut)


def test_a_class_packed_with_its_own_folder_is_read(tmp_path):
    """`tar czf class.tgz .` begins with an entry "./", which has no name."""
    packed = tar_member(b"./", b"", b"5") + tar_member(b"./alpha/ch03_attention.py", b"a") + tar_member(b"./beta/ch03_attention.py", b"b") + bytes(1024)
    assert list(by_name(write(tmp_path / "class.tar", packed))) == ["alpha", "beta"]
    empty = zipped({"": "x", ".": "y", f"alpha/{CHAPTER}": "a"})
    assert list(by_name(write(tmp_path / "class.zip", empty))) == ["alpha"]


def test_the_format_is_detected_from_the_bytes_and_not_from_the_name(tmp_path):
    write(tmp_path / "alpha.zip", tarred({CHAPTER: "a"}))
    write(tmp_path / "beta.tar.gz", zipped({CHAPTER: "b"}))
    write(tmp_path / "chi", zipped({CHAPTER: "c"}))
    write(tmp_path / "delta.zip", "words")
    write(tmp_path / "epsilon.zip", b"")
    write(tmp_path / "fay.7z", b"7z\xbc\xaf\x27\x1c" + bytes(100))
    write(tmp_path / "gil.rar", b"Rar!\x1a\x07\x01\x00" + bytes(100))
    write(tmp_path / "hal.gz", gzip.compress(b"x = 1\n"))
    write(tmp_path / "ida.zip", zipped({}))
    found = by_name(tmp_path)
    assert [found[name].sources["ch03_attention"] for name in ("alpha", "beta", "chi")] == ["a", "b", "c"]
    assert {name: s.problem for name, s in found.items() if s.problem} == {
        "delta": "this file is not a valid archive; submit a zip or tar archive",
        "epsilon": "this file is empty; submit a zip or tar archive",
        "fay": "this is a 7z archive, which the grader cannot read; submit a zip or tar archive",
        "gil": "this is a rar archive, which the grader cannot read; submit a zip or tar archive",
        "hal": "this gz file does not contain a tar archive; submit a zip or tar archive",
        "ida": "nothing was submitted: it is empty",
    }


def test_false_sizes_make_an_archive_damaged(tmp_path):
    honest = zipped({CHAPTER: "x = 1\n" * 100}, zipfile.ZIP_STORED)
    deflated = zipped({CHAPTER: "x = 1\n" * 100})
    for lie in (patched(deflated, size=10), patched(deflated, crc=7), patched(honest, method=8)):
        assert archive(tmp_path, lie).problem == "the archive is damaged or incomplete; submit it again"
    assert archive(tmp_path, patched(deflated, size=0xFFFFFFF0)).problem == "the archive has more than 300 MB when unpacked; submit only the chapter files"


def test_duplicate_members_are_read_and_overlapping_members_refused(tmp_path):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as out, pytest.warns(UserWarning):
        out.writestr(zipfile.ZipInfo(CHAPTER, (2026, 1, 1, 0, 0, 0)), "old")
        out.writestr(zipfile.ZipInfo(CHAPTER, (2026, 1, 2, 0, 0, 0)), "new")
        out.writestr(zipfile.ZipInfo("a.py", (2026, 1, 2, 0, 0, 0)), "a")
    found = archive(tmp_path / "a", target.getvalue())
    assert found.sources == {"ch03_attention": "new"} and len(found.notes) == 1
    with zipfile.ZipFile(target, "a") as out:
        out.filelist[2].header_offset = out.filelist[1].header_offset
        out._didModify = True
    assert archive(tmp_path / "b", target.getvalue()).problem == DAMAGED


def test_too_many_members_are_refused():
    def refusal(data, limits):
        with pytest.raises(UnreadableSubmission) as refused:
            list_members(io.BytesIO(data), len(data), limits)
        return str(refused.value)

    few = Limits(packed_bytes=100_000, unpacked_bytes=50_000, members=10)
    many = {f"{number}.txt": "" for number in range(11)}
    assert refusal(zipped(many), few) == "the archive contains 11 files, and at most 10 are allowed; submit only the chapter files"
    assert refusal(tarred(many), few) == refusal(zipped(many), few)
    assert refusal(zipped({}) + bytes(100_000), few) == "the archive has 0 MB, and at most 0 MB are allowed; submit only the chapter files"
    assert refusal(zipped({"x": "y" * 60_000}), few) == "the archive has more than 0 MB when unpacked; submit only the chapter files"
    assert refusal(tarred({"x": "y" * 60_000}), few) == "the archive is far too large when unpacked; submit only the chapter files"
    skipped = {f".venv/{number}": "" for number in range(15)}
    for pack in (zipped, tarred):
        data = pack(skipped | {CHAPTER: "mine"})
        assert [found.path for found in list_members(io.BytesIO(data), len(data), few)] == [(CHAPTER,)]


END = bytes(1024)
MEMORY = "it cannot be read: reading it takes more memory than the grader allows"
OUT = "a file in the archive has a path outside of it (../../xy); submit only the chapter files"


@pytest.mark.parametrize(
    "blocks, problem",
    [
        ([tar_member(CHAPTER.encode()), END], ""),
        ([tar_member(CHAPTER.encode())], DAMAGED),
        ([tar_header(b"x", size_field=b"\xff" * 12), END], DAMAGED),
        ([tar_header(CHAPTER.encode(), 1 << 30), END], DAMAGED),
        ([tar_header(b"x", 400_000_000, b"x"), END], DAMAGED),
        ([tar_header(b"x", -1024, b"0", size_field=b"\xff" * 10 + b"\xfc\0"), tar_member(CHAPTER.encode()), END], DAMAGED),
        ([tar_member(b"x", b"13 size=-512\n", b"x"), tar_member(CHAPTER.encode()), END], DAMAGED),
        ([tar_member(b"x", b"17 path=../../xy\n", b"x"), tar_member(CHAPTER.encode()), END], OUT),
        ([tar_member(b"x", b"20 mtime=1e999999999\n", b"x"), tar_member(CHAPTER.encode()), END], ""),
        ([tar_member(b"x", ("a/" * 200 + CHAPTER).encode() + b"\0", b"L"), tar_member(b"x"), END], ""),
        ([tar_member(CHAPTER.encode()), b"\xff" * 512, END], DAMAGED),
        ([tar_member(b"d/", b"", b"5"), tar_member(CHAPTER.encode()), END + b"junk behind the end"], ""),
    ],
)
def test_malicious_tar_headers_are_refused(tmp_path, blocks, problem):
    found = archive(tmp_path, b"".join(blocks), "alpha.tar")
    assert found.problem == problem
    assert found.sources == ({} if problem else {"ch03_attention": "x = 1\n"})


BOMB = """
import gzip, io, lzma, resource, sys, tarfile, zipfile, zlib
from pathlib import Path
sys.path.insert(0, {tests!r})
from submission_archives import CHAPTER, patched, tar_header, tar_member
from grader.classroom.intake.reader import read_submissions
here = Path({here!r}); here.mkdir()
SIZE = 1_500_000_000
with zipfile.ZipFile(here / "alpha.zip", "w", zipfile.ZIP_DEFLATED) as out:
    out.writestr(CHAPTER, bytes(50_000_000))
(here / "alpha.zip").write_bytes(patched((here / "alpha.zip").read_bytes(), size=150_000))
(here / "beta.tgz").write_bytes(gzip.compress(tar_header(b"zeros", SIZE)) + gzip.compress(bytes(5_000_000)) * 70)
(here / "epsilon.tgz").write_bytes(gzip.compress(tar_header(b"x", SIZE, b"x")) + gzip.compress(bytes(5_000_000)) * 20)
with zipfile.ZipFile(here / "hal.zip", "w", zipfile.ZIP_DEFLATED) as out:
    for number in range(340): out.writestr(f"{{number}}/" + CHAPTER, bytes([number % 256]) * 199_000)
filters = [{{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}}]
packed = bytearray(lzma.compress(tar_member(CHAPTER.encode()) + bytes(1024), lzma.FORMAT_XZ, filters=filters))
# a block header that asks for a dictionary of 4 GB: the one byte that says how large it is, and the header's checksum
start = 12; length = (packed[start] + 1) * 4
place = start + 4
assert packed[start + 2] == 0x21, packed[start:start + 12].hex()
packed[place] = 40
packed[start + length - 4:start + length] = zlib.crc32(bytes(packed[start:start + length - 4])).to_bytes(4, "little")
(here / "joy.tar.xz").write_bytes(packed)

def pile(levels, width, megabytes):
    inside, packed = pile(levels - 1, width, megabytes) if levels else bytes(megabytes * 1_000_000), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for number in range(width): out.writestr(f"{{number}}.zip" if levels else f"notes{{number}}.py", inside)
    return packed.getvalue()

(here / "kim.zip").write_bytes(pile(2, 1, 90))
resource.setrlimit(resource.RLIMIT_AS, (2**20 * {megabytes},) * 2)
for s in read_submissions(here):
    print(s.name, s.problem or "read", sep=": ")
"""


def test_decompression_bombs_are_refused_with_little_memory(tmp_path):
    program = BOMB.format(tests=str(submission_archives.__file__.rpartition("/")[0]), here=str(tmp_path / "class"), megabytes=400)
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == {
        "alpha": DAMAGED,
        "beta": "the archive is far too large when unpacked; submit only the chapter files",
        "epsilon": MEMORY,
        "hal": "it contains far too many copies of the chapters; submit one of each",
        "joy": MEMORY,
        "kim": "it contains no readable chapter: notes0.py is larger than 200 KB and was not read",
    }
