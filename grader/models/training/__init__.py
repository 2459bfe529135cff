"""Training a model of the learner's parts, which can be interrupted and goes on later.

    settings.py         what the user asked for, and what follows from it
    own_text.py         a file or folder of the user's as paragraphs, or a sentence about why that is not possible
    corpora.py          batches by the number of the step: from stories, from a text, from pairs of sentences
    trainer.py          steps, validation, samples, their history; what the learner's functions expect
    optimizer_state.py  what a resumed training needs of the learner's AdamW
    making.py           a new training, or one that goes on from its checkpoint
    run.py              the loop: schedule, checkpoints, Control-C, crashes
    team.py             a step that several processes make together
    data_parallel.py    what rank 0 and the other ranks do before, between and after the steps
    followers.py        starts and ends the processes of the other ranks on this machine
    follower_process.py is one of them
    live_page.py        what a terminal shows

Begin with `run.py`. A batch depends only on the seed and the number of its step, so a resumed run needs no history.
"""
