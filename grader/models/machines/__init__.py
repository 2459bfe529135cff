"""Chapter 18's group of ranks made of real processes; the simulated one is grader/execution/simulated_group.py.

Both keep the same contract, which chapter 18 describes; tests run it against both.
"""
