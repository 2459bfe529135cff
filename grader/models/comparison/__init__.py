"""`headway compare`: models next to each other, measured on the same text.

    training.py      what words such as `rope` mean; trains two designs for the same number of steps
    scoring.py       the held-out text, and a model's loss on it
    measuring.py     opens two checkpoints and measures both
    modern.py        what each part of chapter 20 does to a small model, over several seeds
    report.py        the table, the sentences and the samples as lines, and the loss curves as SVG

Begin with `measuring.py`. Two designs become two checkpoints first, so there is only one way to compare.
"""
