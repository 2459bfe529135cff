"""What each exercise computes. A function calls one side's implementation, as a test does, and returns panels.

It contains no solution.
"""
