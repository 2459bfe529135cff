"""The gradebook of a class in SQLite: submissions, results, and the versions they depend on."""
