"""`headway capstone`: a model from its tokenizer to its rewards, of the learner's own parts, in one sitting.

    stages.py      the stages, one clock for all of them, and what a sitting continues from
    record.py      what a run has measured, as a file; intervals; the rows of `headway capstone --compare`
    model_card.py  what was measured and what it means, for the terminal and for the page model_card.html

Begin with `stages.py`. The stages are `headway train` and `headway tune`: their checkpoints are in
`checkpoints/NAME/stories` and `checkpoints/NAME/answers`, and what is done is read from them.
"""
