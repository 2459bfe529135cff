"""Pictures as SVG, without a dependency: tables and diagrams, curves, and what both are made of."""
