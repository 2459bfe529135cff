# variant: each call becomes a name, and equal names win
def judge_both_orders(judge, a, b):
    names = []
    for first, second, x, y in ((a, b, "a", "b"), (b, a, "b", "a")):
        word = judge(first, second)
        if word == "first":
            names.append(x)
        elif word == "second":
            names.append(y)
        elif word == "tie":
            names.append("tie")
        else:
            raise ValueError(f"judge said {word!r}")
    return names[0] if names[0] == names[1] else "tie"


# variant: points for a
def judge_both_orders(judge, a, b):
    points = {"first": 1, "second": -1, "tie": 0}

    def ask(x, y):
        said = judge(first=x, second=y)
        assert said in points, f"the judge must not say {said!r}"
        return points[said]

    total = ask(a, b) - ask(b, a)
    return "a" if total == 2 else "b" if total == -2 else "tie"


# variant: plain comparisons
def judge_both_orders(judge, a, b):
    one = judge(a, b)
    two = judge(b, a)
    allowed = ["first", "second", "tie"]
    if one not in allowed:
        raise ValueError("judge: " + repr(one))
    if two not in allowed:
        raise ValueError("judge: " + repr(two))
    if one == "first" and two == "second":
        return "a"
    if one == "second" and two == "first":
        return "b"
    return "tie"
