"""torch's compiler is imported when something uses it, and then everything is as if torch had imported it itself."""

import json
import subprocess
import sys

import pytest
from boundaries import forks
from grader.course.chapter_source import ChapterSource
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.proxy import Boundary, Implementation
from grader.execution.sandbox.isolation import available
from grader.execution.worker import Worker, WorkerPool

USES = {  # each has one value, the same with torch's compiler imported at the start
    "torch.compile": 'torch.compile(lambda x: x * 2 + 1, backend="eager")(torch.ones(2)).tolist()',
    "no graph but the function's": 'torch._dynamo.explain(lambda x: (x * 2).relu())(torch.ones(2)).graph_count',
    "a checkpoint": "[checkpoint(lambda x: x * 2, W, use_reentrant=False).sum().backward(), W.grad.tolist()]",
    "torch.func": "torch.func.grad(lambda x: (x * x).sum())(torch.ones(2)).tolist()",
    "an import of a name": "ran('from torch._dynamo import optimize, disable', 'disable(optimize).__module__')",
    "a module of it": "ran('import torch._dynamo.config as c', 'c is torch._dynamo.config is sys.modules[c.__name__], type(c.__spec__.loader).__name__')",
    "a module deeper in it": "ran('from torch._dynamo.backends.registry import lookup_backend as f', 'f(\"eager\").__module__')",
    "all of its modules once": "ran('import torch._dynamo.utils', 'sorted(n for n, m in sys.modules.items() if n.count(\".\") == 2 and n.startswith(\"torch._dynamo.\") and getattr(torch._dynamo, n.split(\".\")[2]) is not m)')",
    "a module that it lacks": "ran('import torch._dynamo.nothing', '')",
    "the place of a module": "importlib.util.find_spec('torch._dynamo.config').name",
    "a name set in it": "ran('d = torch._dynamo; d.sign = 4', 'torch._dynamo.sign, d.sign')",
    "disable for a function of one's own": "torch.compiler.disable(lambda x: x)._torchdynamo_disable",
    "torch's own functions disabled": "ran('torch._dynamo.reset(); optimizer().zero_grad()', 'torch.optim.SGD.zero_grad.__wrapped__.__dict__[\"__dynamo_disable\"]._torchdynamo_disable')",
}
SCRIPT = """
import importlib.util, json, os, sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))

def optimizer(kind=torch.optim.SGD):
    weight = torch.nn.Parameter(torch.ones(2))
    made = kind([weight], lr=0.1)
    (weight * weight).sum().backward()
    made.step()
    made.zero_grad()
    return made

def imported():
    return "torch._dynamo.eval_frame" in sys.modules

def ran(statements, then):
    space = dict(globals())
    try:
        exec(statements, space)
        return eval(then, space)
    except ImportError as problem:
        return type(problem).__name__

W = torch.ones(2, requires_grad=True)
if sys.argv[1] == "deferred":
    from grader.course.torch_internals import defer_compiler
    defer_compiler()
else:
    import torch._dynamo
optimizer(), optimizer(torch.optim.AdamW), torch.ones(2, device="meta") @ torch.ones(2, device="meta")
torch.vmap(lambda x: x + 1)(torch.ones(2)), torch.jit.trace(lambda x: x + 1, (torch.ones(2),))
with Mode():
    torch.ones(2) + 1
found = {"at the start": imported()}
for name, use in json.load(sys.stdin).items():
    read, write = os.pipe()
    if not os.fork():
        os.write(write, json.dumps([eval(use), imported()]).encode())
        os._exit(0)
    os.close(write)
    with open(read) as answer:
        found[name] = json.loads(answer.read() or "null")
    os.wait()
json.dump(found, sys.stdout)
"""
CHAPTER = """
import sys, torch

def deferred():
    return "torch._dynamo.eval_frame" not in sys.modules

def compiled(x):
    return torch.compile(lambda v: v * 2 + 1, backend="eager")(x)
"""


def results(kind: str, uses: dict[str, str]) -> dict:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT, kind], input=json.dumps(uses), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@forks
def test_optimizers_dispatch_modes_and_meta_tensors_do_without_the_compiler():
    uses = {name: USES[name] for name in ("torch.compile", "a module of it")}
    found = results("deferred", uses | {"none": "optimizer() and 1"})
    assert found == {"at the start": False, "none": [1, False], "torch.compile": [[3.0, 3.0], True], "a module of it": [[True, "SourceFileLoader"], True]}


@forks
@pytest.mark.thorough
def test_every_use_is_as_with_the_compiler_imported_at_the_start():
    deferred, at_start = (results(kind, USES) for kind in ("deferred", "imported"))
    assert (deferred.pop("at the start"), at_start.pop("at the start")) == (False, True)
    assert deferred == at_start
    assert all(each[1] for each in at_start.values())


def compiled_in_a_worker(pool: WorkerPool) -> list:
    worker = Worker(pool, [ChapterSource("compiling", CHAPTER, "compiling.py")], "compiling", 60.0, 60.0)
    boundary = Boundary(worker)
    boundary.begin(0)
    learner = Implementation(boundary)
    found = [learner.deferred(), learner.compiled(1.0), learner.deferred()]
    worker.close()
    return found


@forks
def test_code_in_the_sandbox_can_use_the_compiler(worker_pool):
    assert compiled_in_a_worker(worker_pool) == [True, 3.0, False]


@forks
@pytest.mark.thorough
@pytest.mark.skipif(not available().bubblewrap, reason="this machine has no bubblewrap")
def test_code_in_bubblewrap_can_use_the_compiler_although_no_folder_can_be_made():
    pool = WorkerPool(isolation=available())
    assert compiled_in_a_worker(pool) == [True, 3.0, False]
    pool.close()


@forks
@pytest.mark.thorough
def test_importing_the_compiler_runs_nothing_that_an_exercise_forbids():
    script = """
import sys
import grader.runner.loading
from grader.execution.forbidden import shortcuts
seen = []
with shortcuts.watching(tuple(sys.argv[1:]), seen.append), shortcuts.watching(tuple(sys.argv[1:]), seen.append, importing=True):
    import torch._dynamo.config
    assert not seen, seen
    import torch
    torch.softmax(torch.ones(2), 0)
    assert seen, "the watch sees nothing"
"""
    names = sorted({name for exercise in load_syllabus().exercises for name in exercise.forbids})
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script, *names], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
