"""One model on several processes: a group of ranks, simulated in threads or made of real processes.

Both kinds of group keep the same contract, which chapter 18 describes; tests run it against both.
"""
