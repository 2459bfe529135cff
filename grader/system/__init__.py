"""The operating system, as all rooms that start processes need it.

`process_tree.py` ends processes and everything they started, says how they ended, and redirects the standard streams,
`handshake.py` connects two processes by a secret token, `forks.py` runs a function in a copy of this process, and
`kernel.py` makes the Linux system calls that Python has no function for.
"""
