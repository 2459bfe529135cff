"""The operating system, as all rooms that start processes need it.

`process_tree.py` ends processes and everything they started, and redirects the standard streams,
`handshake.py` connects two processes by a secret token, and `kernel.py` makes the Linux system calls that Python has no
function for.
"""
