# variant: a stage does what is ready; it does not get further ahead than it may
def pipeline_schedule(n_stages, n_micro, kind="1f1b"):
    assert kind in {"gpipe", "1f1b"}, f"what is {kind}?"
    stages = []
    for s in range(n_stages):
        most = n_micro if kind == "gpipe" else n_stages - s
        steps, done, back = [], 0, 0
        while back < n_micro:
            if done < n_micro and done - back < most:
                steps.append(("forward", done))
                done += 1
            else:
                steps.append(("backward", back))
                back += 1
        stages.append(steps)
    return stages


# variant: sorted by when each pass would run
def pipeline_schedule(n_stages, n_micro, kind="1f1b"):
    if kind == "1f1b":
        lead = lambda s: n_stages - 1 - s
    elif kind == "gpipe":
        lead = lambda s: n_micro
    else:
        raise ValueError(f"no schedule is called {kind!r}")

    def when(s):
        return lambda step: (step[1], 0) if step[0] == "forward" else (step[1] + lead(s), 1)

    steps = [(name, m) for name in ("forward", "backward") for m in range(n_micro)]
    return [sorted(steps, key=when(s)) for s in range(n_stages)]


# variant: two queues
from collections import deque


def pipeline_schedule(n_stages, n_micro, kind="1f1b"):
    try:
        first = {"gpipe": [n_micro] * n_stages, "1f1b": [n_stages - 1 - s for s in range(n_stages)]}[kind]
    except KeyError:
        raise ValueError(f"kind {kind} is unknown") from None
    plan = []
    for ahead in first:
        forward, backward = (deque((name, m) for m in range(n_micro)) for name in ("forward", "backward"))
        row = [forward.popleft() for _ in range(min(ahead, n_micro))]
        while backward:
            row += [forward.popleft()] if forward else []
            row.append(backward.popleft())
        plan.append(row)
    return plan
