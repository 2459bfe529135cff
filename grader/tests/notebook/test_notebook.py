"""`check` and `hint` in a notebook: cells that are really executed, in one kernel, in a folder outside the kit."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from grader.course.source import find_definition
from grader.course.syllabus import SOLUTIONS
from notebooks import RIGHT, with_check

WRONG = """
def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum()
"""


def reference(module: str, name: str) -> str:
    """The reference's definition, as a learner would have it in a cell."""
    text = find_definition((SOLUTIONS / f"{module}.py").read_text(encoding="utf-8"), name).text
    return "\n".join(line for line in text.splitlines() if "SOLUTION" not in line)


@pytest.fixture(scope="module")
def notebook(template, tmp_path_factory):
    with with_check(template, tmp_path_factory.mktemp("notebook")) as notebook:
        yield notebook


@pytest.fixture
def chapter(notebook):
    """The learner's file of chapter 3, which is restored afterwards."""
    path = notebook.kit.file("ch03_attention")
    before = path.read_bytes()
    yield path
    path.write_bytes(before)


def progress(notebook) -> str:
    path = notebook.kit.exercises / "progress.txt"
    return path.read_text() if path.exists() else ""


def test_importing_the_package_imports_no_torch():
    code = "import sys, grader; print('torch' in sys.modules); from grader import check, hint; print('torch' in sys.modules, callable(check))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False", "False", "True"]


# ---- functions and classes


def test_a_correct_function_passes_and_is_not_recorded(notebook):
    shown = notebook.run(RIGHT + 'passed = check("softmax", softmax)\npassed')
    assert "softmax works." in shown.text and "Next: causal_mask." in shown.text
    assert "copy the code into exercises/ch03_attention.py" in shown.line
    assert notebook.run("bool(passed)").text == "True"
    assert "softmax works" in shown.html and "color:#258750" in shown.html
    assert progress(notebook) == ""


def test_a_known_mistake_is_named(notebook):
    shown = notebook.run(WRONG + 'answer = check("softmax", softmax)\nanswer')
    assert "The whole tensor sums to 1, where every slice along `dim` should." in shown.text
    assert "FAILED  test_weights_are_exponentials_over_their_sum" in shown.text and 'For a hint: hint("softmax")' in shown.text
    assert "promised" in shown.html and "expected" in shown.html and "T=2 V=3" in shown.html
    assert max(map(len, shown.text.splitlines())) <= 80
    assert notebook.run("bool(answer)").text == "False"


def test_the_newest_definition_of_a_function_is_checked(notebook):
    assert "works." not in notebook.run(WRONG + 'check("softmax", softmax)').text
    notebook.run(RIGHT)
    assert "works." in notebook.run('check("softmax", softmax)').text
    assert "works." in notebook.run("check(softmax)").text


def test_a_class_that_uses_other_cells(notebook):
    for name in ("softmax", "scaled_dot_product_attention", "split_heads", "merge_heads"):
        notebook.run(reference("ch03_attention", name))
    shown = notebook.run(reference("ch03_attention", "MultiHeadAttention") + '\ncheck("MultiHeadAttention", MultiHeadAttention)')
    assert "MultiHeadAttention works." in shown.text
    notebook.run("def merge_heads(x):\n    return x.flatten(2)")
    shown = notebook.run('check("MultiHeadAttention", MultiHeadAttention)')
    assert "MultiHeadAttention works." in shown.text
    assert "Your merge_heads fails its tests, so the reference's merge_heads was used here." in shown.line
    shown = notebook.run('check("merge_heads", merge_heads)')
    assert "works." not in shown.text and "FAILED" in shown.text
    assert "mine" in notebook.run("merge_heads.mine = True\nprint(vars(merge_heads))").printed, "the notebook's own function is back"


def test_a_class_inherits_from_the_references_class_if_its_own_base_fails(notebook):
    broken = reference("ch05_layers", "LayerNorm").replace("self.eps = eps", "self.eps = 0.5").replace("torch.ones", "torch.zeros")
    own = "class Norm(LayerNorm):\n    kind = 'mine'\n\nclass RMSNorm(Norm):\n    def __init__(self, d_model, eps=1e-6):\n        super().__init__(d_model, eps)\n"
    own += "        del self.bias\n\n" + reference("ch05_layers", "RMSNorm").partition("\n\n    def forward")[2].join(["    def forward", "\n"])
    shown = notebook.run(broken + "\n\n" + own + "\ncheck(RMSNorm)")
    assert "RMSNorm works." in shown.text, shown.text
    assert "Your LayerNorm fails its tests, so the reference's LayerNorm was used here." in shown.line
    assert notebook.run("Norm.__bases__ == (LayerNorm,) and RMSNorm(3).eps").text == "0.5", "the notebook's own base class is back"
    fixed = reference("ch05_layers", "LayerNorm")
    assert "was used here" not in notebook.run(fixed + "\n\n" + own + "\ncheck(RMSNorm)").line


def test_a_result_that_nothing_can_learn_through(notebook):
    shown = notebook.run(RIGHT.replace(".exp()", ".exp().detach()") + 'check("softmax", softmax)')
    assert "softmax: the result has no gradient back to the inputs" in shown.line


def test_a_stub_is_to_do_and_a_stub_it_needs_is_replaced(notebook):
    shown = notebook.run('def causal_mask(q_len, k_len=None):\n    raise NotImplementedError\ncheck("causal_mask", causal_mask)')
    assert "causal_mask is not implemented yet." in shown.text and "FAILED" not in shown.text
    notebook.run("def softmax(x, dim=-1):\n    raise NotImplementedError")
    shown = notebook.run(reference("ch03_attention", "scaled_dot_product_attention") + "\ncheck(scaled_dot_product_attention)")
    assert "scaled_dot_product_attention works." in shown.text
    assert "softmax is not written yet, so the reference's was used here." in shown.line


def test_a_failure_points_to_the_cell_and_its_line(notebook):
    notebook.run("def helper(x):\n    return x.softmx()")
    number = notebook.cells
    shown = notebook.run('def softmax(x, dim=-1):\n    print("<script>1 & 2</script>")\n    return helper(x)\ncheck("softmax", softmax)')
    assert f"at        cell In[{number}], line 2:  return x.softmx()" in shown.text
    assert "<script>1 & 2</script>" in shown.text
    assert "<script>" not in shown.html and "<script>1 & 2</script>" in "".join(ElementTree.fromstring(shown.html).itertext())


def test_the_other_names_come_from_the_notebook_and_else_from_the_learners_file(notebook, chapter):
    """The tests of fuse_qkv need a MultiHeadAttention too."""
    stub = chapter.read_bytes()
    notebook.run("globals().pop('MultiHeadAttention', None)")
    for name in ("softmax", "scaled_dot_product_attention", "split_heads", "merge_heads", "causal_mask", "FusedSelfAttention"):
        notebook.run(reference("ch03_attention", name))
    notebook.run(reference("ch03_attention", "fuse_qkv").replace("attention: MultiHeadAttention", "attention"))
    shown = notebook.run("check(fuse_qkv)")
    assert "fuse_qkv works." in shown.text and "MultiHeadAttention is not written yet, so the reference's was used here." in shown.line
    notebook.kit.solve("ch03_attention")
    shown = notebook.run("check(fuse_qkv)")
    assert "fuse_qkv works." in shown.text and "was used here" not in shown.line
    chapter.write_bytes(stub)
    notebook.run(reference("ch03_attention", "MultiHeadAttention"))
    assert "fuse_qkv works." in notebook.run("check(fuse_qkv)").text


def test_a_cell_may_build_on_the_learners_own_earlier_chapters(notebook, chapter):
    importing = "import sys\nsys.modules.pop('exercises.ch03_attention', None)\n"
    importing += "from exercises.ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads"
    notebook.run(importing)
    for name in ("rope_angles", "apply_rope", "alibi_slopes", "alibi_bias", "CausalSelfAttention"):
        notebook.run(reference("ch04_positions_in_attention", name))
    shown = notebook.run("check(CausalSelfAttention)")
    assert "Next: write the code that CausalSelfAttention needs; split_heads in ch03_attention.py is not implemented yet." in shown.line
    notebook.kit.solve("ch03_attention")
    notebook.run(importing)
    assert "CausalSelfAttention works." in notebook.run("check(CausalSelfAttention)").text


def test_an_unreadable_file_does_not_prevent_a_check(notebook, chapter):
    chapter.write_text("def split_heads(:\n", encoding="utf-8")
    shown = notebook.run(RIGHT + 'check("softmax", softmax)')
    assert "softmax works." in shown.text and "So your notebook was tested without this file." in shown.line
    chapter.unlink()
    assert "softmax works." in notebook.run('check("softmax", softmax)').text
    chapter.write_text("import nowhere\n", encoding="utf-8")
    shown = notebook.run('check("softmax", softmax)')
    assert "ch03_attention.py does not import" in shown.text and "nowhere" in shown.html


# ---- the failed call as a cell


def test_the_failed_call_is_a_cell_that_calls_the_notebooks_function(notebook):
    shown = notebook.run(WRONG + 'x = "mine"\ndef other():\n    return x\ncheck("softmax", softmax)')
    again = 'from grader import repro; repro("softmax")'
    assert again in shown.text and again in "".join(ElementTree.fromstring(shown.html).itertext())
    code = notebook.run(f"answer = [{again.partition('; ')[2]}]\nanswer[0]")
    assert "got = softmax(x_2" in code.text and "# To run it in the debugger" in code.text, "`x` is in use"
    assert "import torch" in "".join(ElementTree.fromstring(code.html).itertext())
    printed = notebook.run(code.text).printed
    assert "got\ntensor(" in printed and "expected\ntensor(" in printed
    assert notebook.run("torch.allclose(got, expected)").text == "False"
    notebook.run(RIGHT)
    notebook.run(code.text)
    assert notebook.run("torch.allclose(got, expected)").text == "True"
    replacing = "repro()\n[(it['text'][:9], it['replace']) for it in get_ipython().payload_manager.read_payload() if it['source'] == 'set_next_input']"
    assert notebook.run(replacing).text == "[('# softmax', True)]"
    notebook.run("check(softmax)")
    assert "There is no failed check of softmax to run again" in notebook.run("repro(softmax)").line


def test_the_cell_uses_the_references_definitions_that_the_check_used(notebook):
    notebook.run(WRONG)
    attention = reference("ch03_attention", "scaled_dot_product_attention").replace("/ math.sqrt(q.size(-1))", "/ q.size(-1)")
    assert "math.sqrt" not in attention
    shown = notebook.run(attention + "\ncheck(scaled_dot_product_attention)")
    assert "FAILED" in shown.text and "so the reference's softmax was used here" in shown.line
    code = notebook.run("repro()").text
    assert 'with chapter_of("scaled_dot_product_attention", scaled_dot_product_attention, replaced=["softmax"]):' in code
    notebook.run("own = softmax\n" + code)
    assert notebook.run("torch.allclose(got, expected), softmax is own").text == "(False, True)"
    notebook.run(reference("ch03_attention", "scaled_dot_product_attention") + "\n" + code)
    assert notebook.run("torch.allclose(got, expected), softmax is own").text == "(True, True)"


@pytest.mark.parametrize(
    ("cell", "call"),
    [
        ("def mine(x, dim=-1):\n    return x\ncheck('softmax', mine)", "mine("),
        ("check('softmax', lambda x, dim=-1: x)", "(lambda x, dim=-1: x)("),
        ("class Mine:\n    @staticmethod\n    def softmax(x, dim=-1):\n        return x\ncheck('softmax', Mine.softmax)", "Mine.softmax("),
    ],
)
def test_the_cell_finds_the_object_that_was_checked(notebook, cell, call):
    notebook.run(cell)
    code = notebook.run("repro('softmax')").text
    assert call in code
    assert "got\ntensor(" in notebook.run(code).printed


def test_a_failure_of_the_file_has_the_command(notebook, chapter):
    notebook.run(RIGHT + "check(softmax)")
    chapter.write_text(chapter.read_text(encoding="utf-8") + WRONG, encoding="utf-8")
    assert "run again !headway repro softmax" in notebook.run('check("softmax")').line
    assert "to run that call again: !headway repro softmax" in notebook.run("repro(softmax)").line
    (notebook.kit.exercises / "progress.txt").unlink(missing_ok=True)


# ---- shortcuts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("torch.softmax", "torch.softmax is a function of torch; write it yourself"),
        ("F.softmax", "torch.nn.functional.softmax is a function of torch; write it yourself"),
        ("lambda x, dim=-1: torch.softmax(x, dim)", "line 1 of cell In[NOW] uses torch.softmax"),
        ("by_helper", "line 2 of cell In[HELPER] uses torch.softmax"),
        ("by_alias", "line 5 of cell In[ALIAS] uses soft (torch.softmax)"),
        ("unread", "softmax ran torch's `softmax`, which is not allowed in this exercise"),
    ],
)
def test_torchs_own_function_does_not_pass(notebook, given, said):
    notebook.run("def helper(x, dim):\n    return torch.softmax(x, dim)")
    helper = notebook.cells
    notebook.run("from torch import softmax as soft\ndef by_helper(x, dim=-1):\n    return helper(x, dim)\ndef by_alias(x, dim=-1):\n    return soft(x, dim)")
    notebook.run('exec("def unread(x, dim=-1):\\n    return x.softmax(dim).nan_to_num(0)")')
    shown = notebook.run(f'answer = check("softmax", {given})\nanswer')
    assert "No points for this exercise: " + said.replace("NOW", str(notebook.cells)).replace("HELPER", str(helper)).replace("ALIAS", str(helper + 1)) in shown.line
    assert notebook.run("bool(answer)").text == "False"
    assert ("looked for forbidden calls only at run time" in shown.line) == (given == "unread")


def test_a_class_built_on_torchs_own_is_a_shortcut(notebook):
    shown = notebook.run('class LayerNorm(nn.LayerNorm):\n    pass\ncheck("LayerNorm", LayerNorm)')
    assert "No points for this exercise: your notebook uses torch.nn.LayerNorm" in shown.line


def test_the_reference_does_not_pass(notebook):
    notebook.run(f"import sys\nsys.path.append({str(notebook.kit.root)!r})\nfrom solutions.ch03_attention import softmax as theirs\nsys.path.pop()")
    assert "comes from solutions.ch03_attention, which contains the answer" in notebook.run('check("softmax", theirs)').line
    shown = notebook.run('def softmax(x, dim=-1):\n    return theirs(x, dim)\ncheck("softmax", softmax)')
    assert "imports solutions.ch03_attention, which contains the answer" in shown.line


# ---- without an object


def test_one_argument_checks_the_file_and_records_the_result(notebook, chapter):
    assert "softmax is not implemented yet." in notebook.run('check("softmax")').text
    chapter.write_text(chapter.read_text(encoding="utf-8") + RIGHT, encoding="utf-8")
    assert "softmax works." in notebook.run('check("softmax")').text
    assert "softmax 10/10" in progress(notebook)
    shown = notebook.run('check("ch03")')
    assert "  softmax                                10/10   passed" in shown.text and "Next: write causal_mask." in shown.text
    assert "Attention: 1 of 11 exercises work" in "".join(ElementTree.fromstring(shown.html).itertext())
    assert "record your points" not in notebook.run(RIGHT + 'check("softmax", softmax)').text
    (notebook.kit.exercises / "progress.txt").unlink()


def test_hints_go_on_from_level_to_level(notebook):
    levels = notebook.kit.exercises / ".headway" / "hints.json"
    assert "split_qkv, hint 1 of 3" in notebook.run('hint("split_qkv")').text
    shown = notebook.run('hint("split_qkv")')
    assert "hint 2 of 3" in shown.text and 'For the next hint: hint("split_qkv")' in shown.text and "hint 2 of 3" in shown.html
    assert "hint 1 of 3" in notebook.run('hint("split_qkv", 1)').text
    assert json.loads(levels.read_text())["split_qkv"] == 2
    assert "hint 3 of 3" in notebook.kit.run("hint", "split_qkv")
    assert "This is the last hint." in notebook.run('hint("split_qkv")').text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('check("sofmax", softmax)', "There is no exercise or chapter called 'sofmax'; did you mean softmax?"),
        ('check("softmax", softmax(torch.ones(2)))', 'check needs the function itself, but this is a Tensor; pass it without calling it: check("softmax", softmax).'),
        ('check(softmax, "softmax")', 'The name is the first argument: check("softmax", softmax).'),
        ("check(nameless)", 'No exercise is called nameless; give the name of the exercise: check("softmax", nameless).'),
        ('check("ch03", softmax)', "ch03 is a chapter; give the name of one exercise with an object: check("),
        ('check("softmax", None)', "check needs the function itself, but this is None"),
        ('check("merge_heads", softmax)', 'softmax is another exercise; to test it: check("softmax", softmax).'),
        ('check("LayerNorm", LayerNorm())', 'check needs the class itself, but this is an object of it: check("LayerNorm", LayerNorm).'),
        ("check(42)", 'The first argument must be the name of an exercise in quotes, as in check("softmax", softmax); yours is an int.'),
        ('hint("ch03")', 'Give the name of an exercise, not of a chapter: hint("softmax").'),
        ('hint("softmax", 0)', 'The level must be a number from 1 to 3: hint("softmax", 1).'),
        ('hint("softmx")', "There is no exercise or chapter called 'softmx'; did you mean softmax?"),
    ],
)
def test_wrong_use_gets_a_sentence(notebook, cell, said):
    notebook.run(RIGHT + "def nameless(x):\n    return x\nclass LayerNorm(nn.Module):\n    pass")
    shown = notebook.run(cell)
    assert not shown.error and shown.line.startswith(said) and len(shown.text.splitlines()) <= 2
    assert notebook.run(f"bool({cell})").text == "False"


def test_a_prompt_without_a_notebook(kit):
    """Text, and the same verdict; code from a prompt has no file, and the message says so."""
    session = "from grader import check\ndef softmax(x, dim=-1):\n    return x\n\ncheck('softmax', softmax)\n"
    done = subprocess.run([sys.executable, "-i", "-q"], input=session, env=kit.environment(), capture_output=True, text=True)
    assert "FAILED  test_weights_are_exponentials_over_their_sum" in done.stdout
    assert "looked for forbidden calls only at run time" in " ".join(done.stdout.split())
