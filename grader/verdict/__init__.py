"""From calls and values to a verdict.

`trial.py` leads an implementation through the tests. `comparing.py` holds the assertions, `relations/`, `sequences.py` and `explaining.py` say how a
wrong value differs from the right one, `diagnosis.py` recognises known mistakes. `results.py` is the outcome as plain data.
"""
