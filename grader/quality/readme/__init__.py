"""The README's pictures, recorded from real runs: `make readme`."""
