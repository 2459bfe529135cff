"""The narrow door between tests and implementations: everything a test may do to an implementation passes here."""
