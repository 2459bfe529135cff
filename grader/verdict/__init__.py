"""From calls and values to a verdict.

`trial.py` runs an implementation through the tests. `comparing.py` has the assertions. `relations/`, `sequences.py` and `explanation.py` say how a
wrong value differs from the right one; `value_text.py` prints values. `diagnosis.py` recognises known mistakes by their answers
(`replay.py`, `evidence.py`). `results.py` is the outcome as data.
"""
