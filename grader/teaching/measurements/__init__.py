"""What lessons claim, measured: each module here prints one lesson's table when it is run."""
