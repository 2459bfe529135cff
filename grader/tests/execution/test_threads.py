"""The list of running threads can be made at any moment."""

import subprocess
import sys

from pytest_runs import environment

# the collector calls a function of Python often, and threads end all the time
BUSY = """
import faulthandler, gc, sys, threading, time
from grader.execution.threads import current_frames

def let_others_run(phase, info):
    for _ in range(30):
        time.perf_counter()

def start_threads():
    while not done:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

done = False
faulthandler.dump_traceback_later(100, exit=True)
starters = [threading.Thread(target=start_threads) for _ in range(3)]
for starter in starters:
    starter.start()
gc.callbacks.append(let_others_run)
gc.set_threshold(3)
sys.setswitchinterval(1e-5)
for _ in range(100_000):
    assert threading.get_ident() in current_frames()
assert gc.isenabled()
done = True
"""


def test_frames_are_listed_while_threads_end_and_garbage_is_collected():
    """In Python 3.11 such a run waited for itself within a second, and no time limit ended it."""
    done = subprocess.run([sys.executable, "-c", BUSY], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
