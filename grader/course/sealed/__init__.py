"""What a handout holds in place of the reference: `form.py` says what sealing is, `reading.py` finds what is sealed; `handout/` seals."""
