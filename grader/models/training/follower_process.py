"""One process of a training, of rank 1 or more.

`python -m grader.models.training.follower_process METHOD RANK SIZE PARENT` runs it.

It prints a line when it has loaded everything, and one more if it ends for a reason of its own.
"""

from __future__ import annotations

import sys

from grader.execution.simulated_group import GroupProblem
from grader.files import UserProblem
from grader.models.machines.processes import join_group
from grader.models.training.data_parallel import follow
from grader.models.training.followers import LEFT_ALONE, READY
from grader.models.training.trainer import NotANumber
from grader.system.process_tree import die_with_parent


def main(method: str, rank: str, size: str, parent: str) -> None:
    die_with_parent(int(parent))
    print(READY.decode(), flush=True)
    try:
        follow(join_group(method, int(rank), int(size)))
    except (GroupProblem, NotANumber):  # rank 0 says what happened, or has ended
        sys.exit(LEFT_ALONE)
    except Exception as problem:
        name = "" if isinstance(problem, UserProblem) else f"{type(problem).__name__}: "
        print(name + " ".join(str(problem).split()), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
