"""A model that adds on a scratchpad learns from rewards: `headway reason`, and the labs of lesson 26.

    sums.py            questions, right answers with and without a scratchpad, and how an answer is graded
    adder.py           the model: a small Llama of the learner's parts; a step of training on right answers
    rewarding.py       a step of training on rewards, with the corrections of chapter 26, or as in chapter 17
    passing.py         pass@k on held-out questions; what two tests say about learning
    reason_progress.py what has happened so far, how the time is divided, what a terminal shows
    reason_file.py     the checkpoint
    reason_run.py      one run from its first step to its last
    reason_report.py   the answer in sentences, and the page

Begin with `reason_run.py`. A batch depends only on the seed and the number of its step, so a resumed run needs no
history.
"""
