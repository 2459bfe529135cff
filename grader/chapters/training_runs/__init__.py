"""The training runs of `headway hunt --training`, and what they showed.

setups.py     the trainings: a small GPT, and what differs in each
cases.py      a case: a known mistake, the setup in which it is trained, and its symptom
training.py   trains a setup with a case's mistake; looks.py measures the run
records.py    reads recordings/, which recording.py makes
drawing.py    draws a record in a terminal
appendix.py   writes the appendix of the book's page "Reading a training run"
"""
