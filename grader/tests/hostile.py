"""A chapter of attacks, for the tests of the sandbox. Each function tries one thing and returns what it got; a refusal raises.

No attack runs outside the sandbox layer that should stop it, and each is small enough to do no harm if the layer fails.
"""

from __future__ import annotations

import textwrap

from hostile_channels import CHANNELS
from hostile_processes import PROCESSES

FILES_AND_SOCKETS = '''
    import ctypes, errno, mmap, os, platform, signal, socket, struct, sys, threading, time
    import torch

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    ARM = platform.machine() in ("aarch64", "arm64")


    def answer(a, b):
        return a + b


    def call(x86, arm, *arguments):
        """A system call by its number; the name of the error, or what it gave."""
        result = libc.syscall(ctypes.c_long(arm if ARM else x86), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
        return errno.errorcode[ctypes.get_errno()] if result < 0 else f"got {result}"


    # ---- reading


    def read(path):
        with open(path, "rb") as file:
            return file.read(200)


    def read_by_number(path):
        return call(257, 56, -100, path.encode() + b"", 0, 0)


    def peek(pid):
        with open(f"/proc/{pid}/mem", "rb") as file:
            return file.read(1)


    def names(folder):
        return os.listdir(folder)


    def look(path):
        return os.stat(path).st_size


    def environment():
        os.environ["A"] = "b"
        libc.getenv.restype = ctypes.c_char_p
        return [len(os.environ), [libc.getenv(name) for name in (b"PATH", b"HOME", b"PYTHONPATH", b"SECRET_OF_THE_JUDGE")]]


    def memory_holds(*words):
        """Is one of these in a string or in bytes that Python has, other than this question?"""
        import gc, linecache
        found = [line for entry in linecache.cache.values() if len(entry) == 4 for line in entry[2]]
        for thing in gc.get_objects():
            if type(thing) in (list, tuple, set):
                found += [x for x in thing if type(x) in (str, bytes)]
            elif type(thing) is dict:
                found += [x for x in thing.values() if type(x) in (str, bytes)]
        return [word for word in words if any(word in str(text) and text not in words and "memory_holds" not in str(text) for text in found)]


    def modules():
        return [name for name in sys.modules if name.partition(".")[0] in ("grader", "solutions", "tests", "exercises")]


    def open_files():
        """What each descriptor is: a device, a socket, a file, a folder."""
        import stat
        kinds = {}
        for descriptor in range(256):
            try:
                mode = os.fstat(descriptor).st_mode
            except OSError:
                continue
            kinds[descriptor] = "socket" if stat.S_ISSOCK(mode) else "device" if stat.S_ISCHR(mode) else "other"
        return kinds


    def own_descriptors():
        return os.listdir("/proc/self/fd")


    def send_file():
        return os.sendfile(1, 0, 0, 10)


    def brings(module):
        __import__(module)
        return "imported"


    # ---- writing


    def write(path):
        with open(path, "w") as file:
            return file.write("x")


    def folder(path):
        os.mkdir(path)


    def change(path, how):
        if how == "chmod":
            os.chmod(path, 0o777)
        elif how == "unlink":
            os.unlink(path)
        elif how == "truncate":
            os.truncate(path, 0)
        elif how == "rename":
            os.rename(path, path + "2")
        elif how == "utime":
            os.utime(path)
        elif how == "link":
            os.link(path, path + "2")
        elif how == "symlink":
            os.symlink(path, path + "2")
        elif how == "chdir":
            os.chdir(path)
        elif how == "chroot":
            os.chroot(path)
        elif how == "xattr":
            os.setxattr(path, "user.a", b"b")


    def shared_memory():
        from multiprocessing import shared_memory
        return shared_memory.SharedMemory(create=True, size=100).name


    # ---- talking


    def make_socket(family, kind):
        return socket.socket(getattr(socket, family), getattr(socket, kind)).fileno()


    def pair():
        return socket.socketpair()


    def reach(port):
        socket.create_connection(("127.0.0.1", port), 1).sendall(b"secret")


    def borrow(descriptor, port):
        """Point the socket that is there at another address."""
        where = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), bytes([127, 0, 0, 1]))
        return call(42, 203, descriptor, ctypes.create_string_buffer(where), len(where))


    def pass_on(descriptor):
        """Send one of its descriptors along with the answer."""
        with_it = socket.socket(fileno=os.dup(descriptor))
        return socket.send_fds(with_it, [b"x"], [0])
'''
ORDINARY = '''
    # ---- what learners may do


    def ordinary():
        """Nothing hostile: what exercises do, and a little more."""
        import collections, dataclasses, decimal, heapq, itertools, json, re, unicodedata
        layer = torch.nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(layer.parameters())
        with torch.enable_grad():
            layer(torch.randn(4, 8)).pow(2).mean().backward()
        optimizer.step()
        attention = torch.nn.MultiheadAttention(8, 2)
        mean = attention(torch.ones(3, 1, 8), torch.ones(3, 1, 8), torch.ones(3, 1, 8))[0].mean()
        meta = torch.nn.Linear(100, 100, device="meta")
        path = torch.einsum("ij,jk->ik", torch.ones(64, 64), torch.ones(64, 64)).sum()
        torch.linalg.svd(torch.randn(5, 4))
        return [bool(mean.isfinite()), meta.weight.numel(), path.item(), time.localtime(0).tm_year, len(os.urandom(4)), thread_of_its_own()]
'''
ATTACKS = "\n\n".join(textwrap.dedent(part) for part in (FILES_AND_SOCKETS, PROCESSES, CHANNELS, ORDINARY))
