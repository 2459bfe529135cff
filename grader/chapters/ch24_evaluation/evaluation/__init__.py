"""Which model is better, with the learner's own parts of chapter 24: `headway evaluate`.

    questions/     the questions, a file a subject; questions.py reads them and writes them as a model reads them
    subjects.py    finds the models that are asked, and opens them, one at a time
    answering.py   asks a model, and keeps its answers in a file, so that the next run goes on
    results.py     shares with intervals, which model is told from one that guesses, and two models compared
    report_page.py the page with the wrong answers

Begin with `answering.py`. The same model gives the same answers, and the same answers give the same intervals.
"""
