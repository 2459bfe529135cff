"""Fine-tuning with the learner's own parts of chapter 17: `headway tune`.

    tasks.py       what a model is asked, right answers, and how a program grades an answer
    adapters.py    LoRALinear layers in a model: put there, given values, merged; their file
    base.py        the model that is tuned: SmolLM2, or a GPT that `headway train` made
    answers.py     answers of the model: drawn token by token, and their log probabilities
    steps.py       one step of training on right answers, and one of training on rewards
    evaluation.py  answers to held-out questions, and whether the difference of two evaluations may be chance
    run.py         both phases: time, evaluations, checkpoints, Control-C
    progress.py    what has happened so far, how the time is divided, and what a terminal shows

Begin with `run.py`. A batch depends only on the seed and the number of its step, so a resumed run needs no history.
"""
