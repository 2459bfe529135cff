"""What `make readme` records from real runs: the README's pictures, and the trained model of two pages of the book."""
