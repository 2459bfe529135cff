"""`headway compare`: models next to each other, measured on the same text.

    trainings.py         what words such as `rope` mean; trains two designs alike, or each part of chapter 20
    measuring.py         opens two checkpoints and measures both on held-out text
    comparison_report.py the table, the sentences and the samples as lines, and the loss curves as SVG

Begin with `measuring.py`. Two designs become two checkpoints first, so there is only one way to compare.
"""
