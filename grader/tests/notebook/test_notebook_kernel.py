"""`check` leaves the kernel unchanged, and the kernel survives whatever the code under test does."""

import subprocess
import sys
import threading
import time

import pytest
from notebooks import RIGHT, with_check

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


@pytest.fixture(scope="module")
def notebook(template, tmp_path_factory):
    with with_check(template, tmp_path_factory.mktemp("notebook")) as notebook:
        yield notebook


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
    wrong = "def causal_mask(q_len, k_len=None):\n    return torch.ones(q_len, k_len or q_len, dtype=torch.bool)\n"  # on the meta device nothing would show it
    shown = notebook.run(wrong + "print(check(causal_mask).passed, torch.ones(1).device)")
    notebook.run("torch.set_default_device(None)\ndel os.environ['PYTEST_ADDOPTS'], sys.modules['strategies']")
    assert shown.printed.split() == ["False", "meta"]


def test_threads_are_as_many_as_before_the_first_check(notebook):
    code = "import torch\nbefore = torch.get_num_threads()\nfrom grader import check\ncheck('softmax')\nprint(before == torch.get_num_threads())"
    code += "\nimport os\nprint('OMP_NUM_THREADS' in os.environ)"
    environment = {name: value for name, value in notebook.kit.environment().items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"], done.stderr


@pytest.mark.thorough
def test_an_endless_loop_ends_in_any_thread(notebook):
    right = RIGHT.replace("def softmax", "def right")
    endless = right + "calls = []\ndef softmax(x, dim=-1):\n    calls.append(1)\n    while len(calls) == 1:\n        {body}\n    return right(x, dim)\n"
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
    assert " ".join(shown.text.split()) == "Another check is still running. Wait until it has finished, then run this one again."


def test_the_stop_button_stops_it(notebook, tmp_path):
    started = tmp_path / "begun"
    cell = f'def softmax(x, dim=-1):\n    open({str(started)!r}, "w").close()\n    while True:\n        pass\ncheck("softmax", softmax)'

    def press() -> None:
        while not started.exists():
            time.sleep(0.02)
        notebook.stop()

    finger = threading.Thread(target=press)
    finger.start()
    shown = notebook.run(cell)
    finger.join()
    assert shown.error == "Stopped" and shown.traceback == "The check was stopped."
    assert "softmax works." in notebook.run(RIGHT + "check(softmax)").text
