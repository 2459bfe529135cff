"""Training a model of the learner's parts, which can be interrupted and goes on later.

    recipes.py       what the user asked for, and what follows from it
    corpora.py       batches by the number of the step: from stories, from a text, from pairs of sentences
    trainer.py       steps, validation, samples, their history; what several processes share of a step
    training_run.py  a new training, or one that goes on from its checkpoint; its loop
    data_parallel.py the processes of the other ranks on this machine, and what they do between the steps
    live_page.py     what a terminal shows

Begin with `training_run.py`. A batch depends only on the seed and the number of its step, so a resumed run needs no
history.
"""
