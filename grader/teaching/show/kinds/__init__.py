"""One small module a kind of picture. A function asks one side across the boundary, as a test does, and gives the panels; it holds no answer."""
