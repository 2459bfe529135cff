"""What is inside a model, with the learner's own parts of chapter 23: `headway features`.

    opened.py            the stories' model and SmolLM2, and the texts that the autoencoder and the tests read
    dictionary.py        the sparse autoencoder: its steps, and its file
    readings.py          what a feature means, by a rule, and how often random directions have one
    examining.py         held-out stories: variance, dead features, contexts, the loss without a feature
    subjects.py          sentences with a property, such as their mood, for probes and steering
    state_cache.py       SmolLM2's states on these sentences, in a file
    probing.py           probes by layer, and texts that a direction has steered
    features_progress.py what has happened so far, how the time is divided, what a terminal shows
    features_run.py      all of it in order, with checkpoints and Control-C
    report_page.py       the page; summary.py has the sentences in the terminal

Begin with `features_run.py`. What is drawn at random depends only on the seed.
"""
