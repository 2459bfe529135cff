"""Models that learners train and play with, made of their own code.

    design.py       what a model looks like (a GPT, a GPT with experts, a translator), and `build_model`, which makes it
    own_parts.py    which parts are the learner's and which the reference's; where their code raised an exception
    tokenizers.py   text to ids and back, with the learner's WordTokenizer or BPETokenizer
    packages.py     which packages this needs, and whether they are installed
    checkpoint.py   a trained model as a folder: safetensors and JSON
    gpt2.py         GPT-2's own tokenizer and weights in the learner's GPT
    play/           a model goes on with what the user types
    training/       `headway train`: batches, steps, schedule, what the terminal shows
    tuning/         `headway tune`: adapters, trained on right answers and then on rewards
    comparison/     `headway compare`: two models measured on the same text; two designs trained alike
    scaling/        `headway scale`: tiny models, the law that they show, a larger model that tests it
    tuning_labs/    the labs of lesson 17, on a small model of the stories
    data_labs/      the labs of lesson 19: duplicates, filters, mixtures
    stories/        an endless corpus of small stories, written for this course

Begin with `design.py`. The learner's code runs in this process: it is theirs, on their machine. Only `cli/` and
`quality/` import this room.
"""
