"""Isolates a worker: limits on its system calls, files, memory and time.

`isolation.py` says which layers this machine supports, `entering.py` sets them up. The layers: `limits.py` (resources),
`seccomp.py` (system calls), `landlock.py` with `paths.py` (files), `namespaces.py` (mounts), and
`bubblewrap.py` around all workers."""
