"""`headway report`: one text with the code, the verdict and the versions, for somebody who thinks that a test is wrong."""

import platform

from grader.cli.commands.report import own_code


def test_a_report_has_the_code_the_verdict_and_the_versions(kit):
    kit.solve("ch03_attention")
    kit.edit("ch03_attention", "def softmax", "def helper(x):\n    return x\n\n\ndef unused(x):\n    return '```'\n\n\ndef softmax")
    kit.edit("ch03_attention", "def softmax(x: Tensor, dim: int = -1) -> Tensor:\n", "def softmax(x: Tensor, dim: int = -1) -> Tensor:\n    '''```'''\n    return helper(x)\n\n")
    said = " ".join(kit.run("report", "softmax").split())
    assert "The tests refuse softmax." in said and "Nothing was sent." in said
    text = (kit.exercises / ".headway" / "report" / "softmax.md").read_text()
    assert "def helper(x):" in text and "def unused" not in text and "def softmax(x: Tensor, dim: int = -1) -> Tensor:" in text
    assert "FAILED" in text and f"- python: {platform.python_version()}" in text and "- torch: " in text
    assert text.count("````python\n") == 1, "a fence in the code does not end the block"


def test_code_that_passes_and_a_file_that_cannot_be_read_give_no_report(kit):
    kit.solve("ch03_attention")
    assert "softmax passes; a report is about code that a test refuses." in kit.run("report", "softmax", status=1)
    assert "gelu is not implemented yet" in kit.run("report", "gelu", status=1)
    kit.edit("ch03_attention", "def softmax(", "def softmax((")
    assert "ch03_attention.py" in kit.run("report", "softmax", status=1)
    assert not (kit.exercises / ".headway" / "report").exists()


def test_the_code_of_a_report_has_decorators_and_the_order_of_the_file():
    text = "import functools\n\n\n@functools.cache\ndef late():\n    return early()\n\n\ndef other():\n    pass\n\n\ndef early():\n    return 1\n"
    code = own_code(text, "late")
    assert "@functools.cache\ndef late" in code and "def other" not in code and code.index("def late") < code.index("def early")
