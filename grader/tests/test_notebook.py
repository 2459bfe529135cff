"""`check` and `hint` in a notebook: cells that are really executed, in one kernel, in a folder far from the kit."""

import json
import shutil
import subprocess
import sys
import threading
import time
from xml.etree import ElementTree

import pytest
from grader.source import find_definition
from grader.syllabus import SOLUTIONS
from kit_copy import Kit
from notebooks import opened

RIGHT = """
def softmax(x, dim=-1):
    largest = x.amax(dim, keepdim=True).clamp(min=-1e38)
    powers = (x - largest).exp()
    total = powers.sum(dim, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)
"""
WRONG = """
def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum()
"""
STATE = """
def state():
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    return dict(
        threads=torch.get_num_threads(), dtype=torch.get_default_dtype(), gradient=torch.is_grad_enabled(), device=torch.get_default_device(),
        chance=torch.get_rng_state().tolist(), random=random.getstate(), numpy=str(numpy.random.get_state()), environment=dict(os.environ),
        folder=os.getcwd(), files=os.listdir(), handlers=handlers, arguments=list(sys.argv), path=list(sys.path), finders=list(sys.meta_path),
        filters=list(warnings.filters), streams=(sys.stdin, sys.stdout, sys.stderr), hooks=(sys.excepthook, sys.unraisablehook, threading.excepthook),
        trace=sys.gettrace(), profile=hypothesis.settings.get_current_profile_name(), tasks=sorted(thread.name for thread in threading.enumerate()),
    )
"""


def reference(module: str, name: str) -> str:
    """The reference's definition, as a learner would have it in a cell."""
    text = find_definition((SOLUTIONS / f"{module}.py").read_text(encoding="utf-8"), name).text
    return "\n".join(line for line in text.splitlines() if "SOLUTION" not in line)


@pytest.fixture(scope="module")
def notebook(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copytree(template, folder / "kit")
    with opened(Kit(folder / "kit"), folder / "elsewhere") as notebook:
        notebook.run("import math, torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\nfrom grader import check, hint")
        yield notebook


@pytest.fixture
def chapter(notebook):
    """The learner's file of chapter 3, which is as it was afterwards."""
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


def test_a_right_function_passes_and_is_not_put_on_record(notebook):
    shown = notebook.run(RIGHT + 'passed = check("softmax", softmax)\npassed')
    assert "softmax works." in shown.text and "Next: causal_mask." in shown.text
    assert "copy it into exercises/ch03_attention.py" in shown.line
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


def test_a_function_defined_anew_is_the_one_that_is_checked(notebook):
    assert "works." not in notebook.run(WRONG + 'check("softmax", softmax)').text
    notebook.run(RIGHT)
    assert "works." in notebook.run('check("softmax", softmax)').text
    assert "works." in notebook.run("check(softmax)").text


def test_a_class_that_leans_on_other_cells(notebook):
    for name in ("softmax", "scaled_dot_product_attention", "split_heads", "merge_heads"):
        notebook.run(reference("ch03_attention", name))
    shown = notebook.run(reference("ch03_attention", "MultiHeadAttention") + '\ncheck("MultiHeadAttention", MultiHeadAttention)')
    assert "MultiHeadAttention works." in shown.text
    notebook.run("def merge_heads(x):\n    return x.flatten(2)")
    shown = notebook.run('check("MultiHeadAttention", MultiHeadAttention)')
    assert "works." not in shown.text and "FAILED" in shown.text


def test_a_result_that_nothing_can_learn_through(notebook):
    shown = notebook.run(RIGHT.replace(".exp()", ".exp().detach()") + 'check("softmax", softmax)')
    assert "softmax: the result is cut off from what it was made of" in shown.line


def test_a_stub_is_to_do_and_a_stub_it_needs_is_named(notebook):
    shown = notebook.run('def causal_mask(q_len, k_len=None):\n    raise NotImplementedError\ncheck("causal_mask", causal_mask)')
    assert "causal_mask is still to do." in shown.text and "FAILED" not in shown.text
    notebook.run("def softmax(x, dim=-1):\n    raise NotImplementedError")
    number = notebook.cells
    shown = notebook.run(reference("ch03_attention", "scaled_dot_product_attention") + "\ncheck(scaled_dot_product_attention)")
    assert f"Next: write what scaled_dot_product_attention builds on; softmax in cell In[{number}] is not written yet." in shown.line


def test_a_failure_points_to_the_cell_and_its_line(notebook):
    notebook.run("def helper(x):\n    return x.softmx()")
    number = notebook.cells
    shown = notebook.run('def softmax(x, dim=-1):\n    print("<script>1 & 2</script>")\n    return helper(x)\ncheck("softmax", softmax)')
    assert f"at        cell In[{number}], line 2:  return x.softmx()" in shown.text
    assert "<script>1 & 2</script>" in shown.text
    assert "<script>" not in shown.html and "<script>1 & 2</script>" in "".join(ElementTree.fromstring(shown.html).itertext())


def test_the_other_names_come_from_the_notebook_and_else_from_the_learners_file(notebook, chapter):
    """The tests of fuse_qkv ask for a MultiHeadAttention too."""
    stub = chapter.read_bytes()
    notebook.run("globals().pop('MultiHeadAttention', None)")
    for name in ("softmax", "scaled_dot_product_attention", "split_heads", "merge_heads", "causal_mask", "FusedSelfAttention"):
        notebook.run(reference("ch03_attention", name))
    notebook.run(reference("ch03_attention", "fuse_qkv").replace("attention: MultiHeadAttention", "attention"))
    shown = notebook.run("check(fuse_qkv)")
    assert "Next: write what fuse_qkv builds on; MultiHeadAttention in ch03_attention.py is not written yet." in shown.line
    notebook.kit.solve("ch03_attention")
    assert "fuse_qkv works." in notebook.run("check(fuse_qkv)").text
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
    assert "Next: write what CausalSelfAttention builds on; split_heads in ch03_attention.py is not written yet." in shown.line
    notebook.kit.solve("ch03_attention")
    notebook.run(importing)
    assert "CausalSelfAttention works." in notebook.run("check(CausalSelfAttention)").text


def test_a_file_that_cannot_be_read_is_in_nobodys_way(notebook, chapter):
    chapter.write_text("def split_heads(:\n", encoding="utf-8")
    shown = notebook.run(RIGHT + 'check("softmax", softmax)')
    assert "softmax works." in shown.text and "Your notebook was tested without that file." in shown.line
    chapter.unlink()
    assert "softmax works." in notebook.run('check("softmax", softmax)').text
    chapter.write_text("import nowhere\n", encoding="utf-8")
    shown = notebook.run('check("softmax", softmax)')
    assert "ch03_attention.py does not import" in shown.text and "nowhere" in shown.html


# ---- shortcuts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("torch.softmax", "torch.softmax is torch's own"),
        ("F.softmax", "torch.nn.functional.softmax is torch's own"),
        ("lambda x, dim=-1: torch.softmax(x, dim)", "line 1 of cell In[NOW] uses torch.softmax"),
        ("by_helper", "line 2 of cell In[HELPER] uses torch.softmax"),
        ("by_alias", "line 5 of cell In[ALIAS] uses soft (torch.softmax)"),
        ("unread", "it called `softmax` while it ran"),
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
    assert ("shortcuts were looked for only while it ran" in shown.line) == (given == "unread")


def test_a_class_built_on_torchs_own_is_a_shortcut(notebook):
    shown = notebook.run('class LayerNorm(nn.LayerNorm):\n    pass\ncheck("LayerNorm", LayerNorm)')
    assert "No points for this exercise: your notebook uses torch.nn.LayerNorm" in shown.line


def test_the_reference_does_not_pass(notebook):
    notebook.run(f"import sys\nsys.path.append({str(notebook.kit.root)!r})\nfrom solutions.ch03_attention import softmax as theirs\nsys.path.pop()")
    assert "comes from solutions.ch03_attention, which holds the answer" in notebook.run('check("softmax", theirs)').line
    shown = notebook.run('def softmax(x, dim=-1):\n    return theirs(x, dim)\ncheck("softmax", softmax)')
    assert "imports solutions.ch03_attention, which holds the answer" in shown.line


# ---- without an object


def test_one_argument_checks_the_file_and_puts_it_on_record(notebook, chapter):
    assert "softmax is still to do." in notebook.run('check("softmax")').text
    chapter.write_text(chapter.read_text(encoding="utf-8") + RIGHT, encoding="utf-8")
    assert "softmax works." in notebook.run('check("softmax")').text
    assert "softmax 10/10" in progress(notebook)
    shown = notebook.run('check("ch03")')
    assert "  softmax                                10/10   passed" in shown.text and "Next: write causal_mask." in shown.text
    assert "Attention: 1 of 11 exercises work" in "".join(ElementTree.fromstring(shown.html).itertext())
    assert "not on record" not in notebook.run(RIGHT + 'check("softmax", softmax)').text
    (notebook.kit.exercises / "progress.txt").unlink()


def test_hints_go_on_from_level_to_level(notebook):
    levels = notebook.kit.exercises / ".headway" / "hints.json"
    assert "split_qkv, hint 1 of 3" in notebook.run('hint("split_qkv")').text
    shown = notebook.run('hint("split_qkv")')
    assert "hint 2 of 3" in shown.text and 'The next one says more: hint("split_qkv")' in shown.text and "hint 2 of 3" in shown.html
    assert "hint 1 of 3" in notebook.run('hint("split_qkv", 1)').text
    assert json.loads(levels.read_text())["split_qkv"] == 2
    assert "hint 3 of 3" in notebook.kit.run("hint", "split_qkv")
    assert "That is the last one." in notebook.run('hint("split_qkv")').text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('check("sofmax", softmax)', "There is no exercise or chapter called 'sofmax'; did you mean softmax?"),
        ('check("softmax", softmax(torch.ones(2)))', 'check takes the function itself, and this is a Tensor: check("softmax", softmax), without calling it.'),
        ('check(softmax, "softmax")', 'The name comes first: check("softmax", softmax).'),
        ("check(nameless)", 'No exercise is called nameless; say which one it is meant for: check("softmax", nameless).'),
        ('check("ch03", softmax)', "ch03 is a chapter, and an object goes with the name of one exercise: check("),
        ('check("softmax", None)', "check takes the function itself, and this is None"),
        ('check("merge_heads", softmax)', 'softmax is another exercise; its check is check("softmax", softmax).'),
        ('check("LayerNorm", LayerNorm())', 'check makes its own objects of a class, and this is one already: check("LayerNorm", LayerNorm).'),
        ("check(42)", 'The name of an exercise comes first, in quotes, as in check("softmax", softmax); this is an int.'),
        ('hint("ch03")', 'Hints go by exercise: hint("softmax").'),
        ('hint("softmax", 0)', 'The levels of a hint are 1 to 3: hint("softmax", 1).'),
        ('hint("softmx")', "There is no exercise or chapter called 'softmx'; did you mean softmax?"),
    ],
)
def test_wrong_use_gets_a_sentence(notebook, cell, said):
    notebook.run(RIGHT + "def nameless(x):\n    return x\nclass LayerNorm(nn.Module):\n    pass")
    shown = notebook.run(cell)
    assert not shown.error and shown.line.startswith(said) and len(shown.text.splitlines()) <= 2
    assert notebook.run(f"bool({cell})").text == "False"


# ---- the kernel


def test_the_kernel_is_left_as_it_was(notebook):
    notebook.run("import hypothesis, numpy, os, random, signal, sys, threading, types, warnings" + STATE)
    notebook.run("torch.set_num_threads(2)\ntorch.set_default_dtype(torch.float64)\nos.environ['PYTEST_ADDOPTS'] = '--nonsense'")
    notebook.run("strategies = sys.modules['strategies'] = types.ModuleType('strategies')  # of the same name as a module of the suites")
    notebook.run(
        "def softmax(x, dim=-1):\n    random.random(), torch.rand(1), numpy.random.rand()\n    os.chdir('/')\n    os.environ['MINE'] = '1'\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    warnings.simplefilter('error')\n    return x"
    )
    look = "before = state()\nanswer = check('softmax', softmax)\nafter = state()\n[name for name in before if before[name] != after[name]]"
    assert notebook.run(look).text == "[]"
    assert "FAILED" in notebook.run("answer").text
    assert notebook.run("with torch.no_grad():\n" + "".join(f"    {line}\n" for line in look.splitlines()[:3]) + look.splitlines()[3]).text == "[]"
    again = "known = set(sys.modules)\ncheck('softmax', softmax), check('MultiHeadAttention')\nset(sys.modules) - known, sys.modules['strategies'] is strategies"
    assert notebook.run(again).text == "(set(), True)"
    notebook.run("torch.set_default_dtype(torch.float32)\ntorch.set_default_device('meta')")
    wrong = "def causal_mask(q_len, k_len=None):\n    return torch.ones(q_len, k_len or q_len, dtype=torch.bool)\n"  # on meta nobody would see it
    shown = notebook.run(wrong + "print(check(causal_mask).passed, torch.ones(1).device)")
    notebook.run("torch.set_default_device(None)\ndel os.environ['PYTEST_ADDOPTS'], sys.modules['strategies']")
    assert shown.printed.split() == ["False", "meta"]


def test_threads_are_as_many_as_before_the_first_check(notebook):
    code = "import torch\nbefore = torch.get_num_threads()\nfrom grader import check\ncheck('softmax')\nprint(before == torch.get_num_threads())"
    code += "\nimport os\nprint('OMP_NUM_THREADS' in os.environ)"
    environment = {name: value for name, value in notebook.kit.environment().items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_an_endless_loop_ends_in_any_thread(notebook):
    endless = "calls = []\ndef softmax(x, dim=-1):\n    calls.append(1)\n    while len(calls) == 1:\n        {body}\n    return x\n"
    catching = "try:\n            1 / len(calls)\n        except BaseException:\n            pass"
    shown = notebook.run(endless.format(body=catching) + 'check("softmax", softmax)')
    assert "The call did not end within 5 s." in shown.text and "TIMEOUT" in shown.text
    shown = notebook.run("import asyncio\n" + endless.format(body="pass") + 'await asyncio.to_thread(check, "softmax", softmax)')
    assert "The call did not end within 5 s." in shown.text
    assert "softmax works." in notebook.run(RIGHT + "check(softmax)").text


def test_whatever_ends_the_program_ends_the_call(notebook):
    for way in ("exit()", "raise SystemExit(3)", "import os; os._exit(3)"):
        shown = notebook.run(f'def softmax(x, dim=-1):\n    {way}\ncheck("softmax", softmax)')
        assert "ended the pro" in shown.line, way
    assert notebook.run("1 + 1").text == "2"


def test_a_check_within_a_check_says_so(notebook):
    shown = notebook.run('inner = []\ndef softmax(x, dim=-1):\n    inner.append(check("softmax", softmax))\n    return x\ncheck("softmax", softmax)\ninner[0]')
    assert shown.text == "Another check is still running; ask again when it is done."


def test_the_stop_button_stops_it(notebook, tmp_path):
    begun = tmp_path / "begun"
    cell = f'def softmax(x, dim=-1):\n    open({str(begun)!r}, "w").close()\n    while True:\n        pass\ncheck("softmax", softmax)'

    def press() -> None:
        while not begun.exists():
            time.sleep(0.02)
        notebook.stop()

    finger = threading.Thread(target=press)
    finger.start()
    shown = notebook.run(cell)
    finger.join()
    assert shown.error == "Stopped" and shown.traceback == "The check was stopped."
    assert "softmax works." in notebook.run(RIGHT + "check(softmax)").text


def test_a_prompt_without_a_notebook(kit):
    """Text, and the same verdict; code from a prompt has no file, and the page says so."""
    session = "from grader import check\ndef softmax(x, dim=-1):\n    return x\n\ncheck('softmax', softmax)\n"
    done = subprocess.run([sys.executable, "-i", "-q"], input=session, env=kit.environment(), capture_output=True, text=True)
    assert "FAILED  test_weights_are_exponentials_over_their_sum" in done.stdout
    assert "shortcuts were looked for only while it ran" in " ".join(done.stdout.split())
