# in process: yes
"""Hopes that what was right once is right again: answers with what it was asked the last time."""

kept = []


def softmax(x, dim=-1):
    kept.append(x.clone())
    return kept[-2] if len(kept) > 1 else x
