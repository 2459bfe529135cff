"""`headway compare`: two models next to each other, measured on the same text.

    design_words.py  what the user's words mean: `rope`, `heads=1`, `moe` are changes of the design
    training.py      trains two designs for the same number of steps, and finds those that are trained already
    scoring.py       held-out texts, and a model's loss on them
    measuring.py     opens two checkpoints and measures both
    report.py        the table, the sentences and the samples as lines
    picture.py       the loss curves of both as SVG

Begin with `measuring.py`. Two designs become two checkpoints first, so there is only one way to compare.
"""
