"""Back to the stub and back again, without losing a line."""


def test_reset_restores_one_stub_and_undo_restores_the_learners_code(kit):
    """A stub has no points until the code is back, also if its comments were edited."""
    kit.solve("ch03_attention")
    kit.pass_chapter("ch03")
    path = kit.file("ch03_attention")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    solved = path.read_bytes()
    out = " ".join(kit.run("reset", "softmax").split())
    assert "softmax is the stub again" in out and "headway reset softmax --undo" in out
    text = path.read_bytes().decode()
    assert text.count("\n") == text.count("\r\n")
    assert text.count("raise NotImplementedError") == 1 and text.index("raise NotImplementedError") < text.index("def causal_mask")
    path.write_bytes(path.read_bytes().replace(b"# TODO 1", b"# my first step", 1))
    assert "Next: softmax" in kit.run("next") and " 0/10  softmax" in kit.run("list") and "90 of" in kit.run()
    assert "--peek" in kit.run("diff", "softmax", status=1)
    assert "your earlier code again" in kit.run("reset", "softmax", "--undo")
    assert path.read_bytes() == solved and "100 of" in kit.run()


def test_undo_loses_nothing_written_since(kit):
    kit.edit("ch03_attention", "    raise NotImplementedError", "    return 'first'")
    kit.run("reset", "softmax")
    assert "is already the stub" in kit.run("reset", "softmax")
    kit.edit("ch03_attention", "    raise NotImplementedError", "    return 'second'")
    assert "The code that it replaced is saved" in " ".join(kit.run("reset", "softmax", "--undo").split())
    assert "'first'" in kit.file("ch03_attention").read_text()
    kit.run("reset", "softmax", "--undo")
    assert "'second'" in kit.file("ch03_attention").read_text()


def test_a_whole_chapter_goes_back_whatever_is_in_it(kit):
    path = kit.file("ch03_attention")
    stub = path.read_bytes()
    for work in (b"def softmax(x:\n", b"\xff\xfe\x00", b""):
        path.write_bytes(work)
        kit.run("reset", "ch03")
        assert path.read_bytes() == stub
        kit.run("reset", "ch03", "--undo")
        assert path.read_bytes() == work
    assert "nothing to restore" in kit.run("reset", "ch03", "--undo", status=1)


def test_a_lost_definition_and_a_lost_file_come_back(kit):
    path = kit.file("ch03_attention")
    kit.edit("ch03_attention", "def softmax(", "def softmax_of_mine(")
    assert "does not define softmax" in kit.run("open", "softmax")
    kit.run("reset", "softmax")
    assert "def softmax(" in path.read_text()
    path.write_text("def softmax(x:\n")
    out = kit.run("reset", "softmax", status=1)
    assert "line 1" in out and "headway reset ch03" in out and path.read_text() == "def softmax(x:\n"
    path.unlink()
    assert "headway reset ch03" in kit.run("open", "softmax", status=1)
    kit.run("reset", "ch03")
    assert kit.run("stubs", "--check")


def test_a_definition_below_an_if_is_found_reset_and_restored_at_its_place(kit):
    path = kit.file("ch03_attention")
    stub = path.read_text()
    start, end = stub.index("def softmax("), stub.index("def causal_mask(")
    below = "if True:\n\n    def softmax(x, dim=-1):\n        return x.softmax(dim)\n\n\n"
    path.write_text(stub[:start] + below + stub[end:])
    line = stub[:start].count("\n") + 3
    assert f"ch03_attention.py:{line}" in kit.run("open", "softmax") and f"ch03_attention.py:{line}" in kit.run("next")
    kit.run("reset", "softmax")
    assert "is already the stub" in kit.run("reset", "softmax")
    assert '    def softmax(x: Tensor, dim: int = -1) -> Tensor:\n        """' in path.read_text()
    kit.run("reset", "softmax", "--undo")
    assert path.read_text() == stub[:start] + below + stub[end:]
    both = "if torch.cuda.is_available():\n    softmax = torch.sin\nelse:\n    softmax = torch.cos\n\n\n"
    path.write_text(stub[:start] + both + stub[end:])
    kit.run("reset", "softmax")
    assert both in path.read_text() and path.read_text().rstrip().endswith("raise NotImplementedError"), "the last definition counts"
    assert "is already the stub" in kit.run("reset", "softmax")
