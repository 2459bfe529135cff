"""`headway scale`: tiny GPTs at three budgets of FLOPs, a prediction from them, and a larger training that tests it.

    plan.py        how large the budgets are, so that all fits into the time; which sizes are trained at each
    trainings.py   one training, on the stories of `headway train`; the sizes and the speed
    record.py      what is trained already, as a file
    experiment.py  trains what is missing, fits the laws, predicts, tests
    report.py      the tables, the sentences and the picture

Begin with `experiment.py`.
"""
