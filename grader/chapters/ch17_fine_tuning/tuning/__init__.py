"""Fine-tuning with the learner's own parts of chapter 17: `headway tune`.

    tasks.py           what a model is asked, right answers, and how a program grades an answer
    adapters.py        LoRALinear layers in a model: put there, given values, merged; their file
    base.py            the model that is tuned: SmolLM2, or a GPT that `headway train` made; its answers
    evaluation.py      answers to held-out questions, and whether the difference of two evaluations may be chance
    tuning_progress.py what has happened so far, how the time is divided, what a terminal shows, and advice at the end
    tuning_run.py      evaluations, both phases, checkpoints, Control-C
    tuning_steps.py    a step on right answers, and one on rewards

Begin with `tuning_run.py`. A batch depends only on the seed and the number of its step, so a resumed run needs no
history.
"""
