"""Models that learners train and play with, made of their own code.

    design.py        what a model looks like (GPT, GPT with experts, translator), and `build_model`, which makes it
    own_parts.py     which parts are the learner's and which the reference's; where their code raised an exception
    tokenizers.py    text to ids and back, with the learner's WordTokenizer or BPETokenizer
    packages.py      which packages this needs, and whether they are installed
    checkpoint.py    a trained model as a folder: safetensors and JSON
    file_values.py   what a value of a file can be; each is checked before anything is made of it
    gpt2.py          GPT-2's own tokenizer and weights in the learner's GPT
    process_group.py chapter 18's group of ranks made of real processes
    play/            a model goes on with what the user types
    training/        `headway train`: batches, steps, schedule, what the terminal shows
    comparison/      `headway compare`: two models measured on the same text; two designs trained alike

Models that one chapter is about lie in its folder of `grader/chapters/`: the published one in chapter 16's, `headway
tune` and `headway capstone` in 17's, `headway scale` in 19's, `headway evaluate` in 24's, `headway reason` in 26's.

Begin with `design.py`. The learner's code runs in this process: it is theirs, on their machine. Only `cli/`,
`chapters/` and `quality/` import this room.
"""
