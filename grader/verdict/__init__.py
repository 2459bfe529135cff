"""From calls and values to a verdict. Begin with `trial.py`, which runs an implementation through the tests.

comparing.py, memory.py      the assertions of graded tests; of the memory and work of a call
examples.py, needed_examples.py, recordings.py   which examples a test gets: drawn by hypothesis, or recorded
explanation.py               what a learner sees of a failure
failed_calls.py              which calls of the test a failure is about
relations/, sequences.py, error_sentences.py   how a wrong value or error differs from the right one
value_text.py                values for a terminal, and as Python code
diagnosis.py, replay.py      recognises known mistakes by their answers; gets these answers, and compares them
results.py                   the outcome as data and as JSON
last_verdicts.py             what is stored of it, and the fingerprint of what it depends on
"""
