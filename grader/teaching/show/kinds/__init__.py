"""One small module for each kind of picture. A function calls one side's implementation, as a test does, and returns panels; it contains no solution."""
