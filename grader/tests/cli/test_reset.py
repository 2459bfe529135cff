"""Back to the stub and back again, without losing a line."""

import pytest


def test_reset_restores_one_stub_and_undo_restores_the_learners_code(kit):
    kit.solve("ch03_attention")
    solved = kit.file("ch03_attention").read_text()
    out = " ".join(kit.run("reset", "softmax").split())
    assert "softmax is the stub again" in out and "headway reset softmax --undo" in out
    text = kit.file("ch03_attention").read_text()
    assert text.count("raise NotImplementedError") == 1 and text.index("raise NotImplementedError") < text.index("def causal_mask")
    assert "is already the stub" in kit.run("reset", "softmax")
    assert "your earlier code again" in kit.run("reset", "softmax", "--undo")
    assert kit.file("ch03_attention").read_text() == solved
    assert "nothing to restore" in kit.run("reset", "softmax", "--undo", status=1)


def test_a_stub_has_no_points_until_the_code_is_back(kit):
    """Also after a reset of the chapter, and if only comments of the stub were edited."""
    kit.solve("ch03_attention")
    kit.pass_chapter("ch03")
    kit.run("reset", "softmax")
    assert "Next: softmax" in kit.run("next") and " 0/10  softmax" in kit.run("list") and "90 of" in kit.run()
    kit.edit("ch03_attention", "# TODO 1", "# my first step")
    assert "Next: softmax" in kit.run("next") and "--peek" in kit.run("diff", "softmax", status=1)
    kit.run("reset", "softmax", "--undo")
    assert "100 of" in kit.run() and "10/10  softmax" in kit.run("list")
    kit.run("reset", "ch03")
    assert " 0 of" in kit.run()
    kit.run("reset", "ch03", "--undo")
    assert "100 of" in kit.run()


def test_undo_loses_nothing_written_since(kit):
    kit.edit("ch03_attention", "    raise NotImplementedError", "    return 'first'")
    kit.run("reset", "softmax")
    kit.edit("ch03_attention", "    raise NotImplementedError", "    return 'second'")
    assert "The code that it replaced is saved" in " ".join(kit.run("reset", "softmax", "--undo").split())
    assert "'first'" in kit.file("ch03_attention").read_text()
    kit.run("reset", "softmax", "--undo")
    assert "'second'" in kit.file("ch03_attention").read_text()


@pytest.mark.parametrize("work", [b"def softmax(x:\n", b"\xff\xfe\x00", "# coding: latin-1\nx = 'é'\r\n".encode("latin-1"), b""])
def test_a_whole_chapter_goes_back_whatever_is_in_it(kit, work):
    path = kit.file("ch03_attention")
    stub = path.read_bytes()
    path.write_bytes(work)
    kit.run("reset", "ch03")
    assert path.read_bytes() == stub
    kit.run("reset", "ch03", "--undo")
    assert path.read_bytes() == work


def test_one_exercise_of_a_broken_file_cannot_be_reset_alone(kit):
    kit.file("ch03_attention").write_text("def softmax(x:\n")
    out = kit.run("reset", "softmax", status=1)
    assert "line 1" in out and "headway reset ch03" in out
    assert kit.file("ch03_attention").read_text() == "def softmax(x:\n"


def test_a_lost_definition_and_a_lost_file_come_back(kit):
    kit.edit("ch03_attention", "def softmax(", "def softmax_of_mine(")
    assert "does not define softmax" in kit.run("open", "softmax")
    kit.run("reset", "softmax")
    assert "def softmax(" in kit.file("ch03_attention").read_text()
    kit.file("ch03_attention").unlink()
    assert "headway reset ch03" in kit.run("open", "softmax", status=1)
    kit.run("reset", "ch03")
    assert kit.run("stubs", "--check")


def test_line_ends_survive_a_reset(kit):
    kit.solve("ch03_attention")
    path = kit.file("ch03_attention")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    kit.run("reset", "softmax")
    data = path.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n")
