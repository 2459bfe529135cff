"""Attention, recurrent layers and a hybrid of both: `headway compare attention recurrent hybrid`.

    models.py        three models of one size, whose blocks differ in how positions exchange information
    recall.py        pairs of keys and values, of which some keys are asked for
    trainings.py     trains each model on text and on recall, with three seeds, and keeps what came out in a file
    costs.py         the bytes that a model keeps while it writes, and its time for a token
    layer_report.py  the tables, and what they say in sentences

Begin with `trainings.py`. A result depends on the seed, on the numbers of steps and on the text, so what is in the file
need not be trained again.
"""
