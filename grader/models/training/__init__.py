"""Training a model of the learner's parts, so that it can be interrupted and goes on as if it had not been.

    settings.py         what the user asked for, and what follows from it
    own_text.py         a file or folder of the user's as paragraphs, or a sentence about why that is not possible
    corpora.py          batches by the number of the step: from stories, from a text, from pairs of sentences
    wrappers.py         models and optimizers as the learner's training functions expect them
    optimizer_state.py  the state of anybody's AdamW as tensors and numbers
    trainer.py          steps, validation, samples, and a state to save
    run.py              the loop: schedule, checkpoints, Control-C, crashes
    live_page.py        what a terminal shows; `curves.py` draws its curves

Begin with `run.py`. A batch depends only on the seed and the number of its step, so a resumed run needs no history.
"""
