"""One model on several processes: a group of ranks, simulated in threads or made of real processes.

Both kinds of group keep the same contract, which chapter 18 describes; tests run it against both.

simulated.py  the simulated group: threads of which one runs at a time
counting.py   what a rank sends, also if the ranks form a ring
one_step.py   one training step in three ways, with what each rank keeps and sends
one_block.py  a block divided among ranks by tensor parallelism
walk.py       `headway walk machines`
labs.py       `headway measure machines_...`: the measurements of lesson 18's labs
"""
