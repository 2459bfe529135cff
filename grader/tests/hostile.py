"""A chapter of attacks, for the tests of the sandbox. Each function tries one thing and returns what it got; a refusal raises.

No attack runs outside the sandbox layer that should stop it, and each is small enough to do no harm if the layer fails.
"""

from __future__ import annotations

from textwrap import dedent

ATTACKS = dedent('''
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
        return call(257, 56, -100, path.encode(), 0, 0)


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


    CHANGES = {
        "chmod": lambda path: os.chmod(path, 0o777),
        "unlink": os.unlink,
        "truncate": lambda path: os.truncate(path, 0),
        "rename": lambda path: os.rename(path, path + "2"),
        "utime": os.utime,
        "link": lambda path: os.link(path, path + "2"),
        "symlink": lambda path: os.symlink(path, path + "2"),
        "chdir": os.chdir,
        "chroot": os.chroot,
        "xattr": lambda path: os.setxattr(path, "user.a", b"b"),
    }


    def change(path, how):
        CHANGES[how](path)


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


    # ---- more of itself


    def fork():
        return os.fork()


    def fork_by_number(which):
        new = ctypes.create_string_buffer(struct.pack("=QQQQQQQQ", 0, 0, 0, 0, 17, 0, 0, 0))
        calls = {"fork": (57, 9999), "vfork": (58, 9999), "clone": (56, 220, 17, 0, 0, 0, 0), "clone3": (435, 435, new, 64)}
        return call(*calls[which])


    def run(program):
        os.execv(program, [program])


    def spawn(program):
        return os.posix_spawn(program, [program], {})


    def system():
        return os.system("true")


    def thread_of_its_own():
        seen = []
        thread = threading.Thread(target=seen.append, args=(7,))
        thread.start()
        thread.join()
        return seen


    # ---- others


    def signal_to(pid, number):
        os.kill(pid, number)


    def signal_to_group(group):
        os.killpg(group, signal.SIGKILL)


    def refused_calls(allowed, last):
        """The answer of each call that is not allowed, by its number, past Python and the C library; ends at one that is not refused."""
        answers = {}
        for number in [*range(last + 1), 100_000, 0x40000000 + 39]:
            if number not in allowed:
                answers[number] = call(number, number, 0, 0, 0, 0, 0, 0)
                if answers[number] not in ("EPERM", "ENOSYS"):
                    break
        return answers


    def other_processor():
        """A call as a 32-bit program makes it, where the numbers mean other things: 2 is fork."""
        code = bytes([0xB8, 2, 0, 0, 0, 0xCD, 0x80, 0xC3])
        page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        where = ctypes.addressof(ctypes.c_char.from_buffer(page))
        return ctypes.CFUNCTYPE(ctypes.c_int)(where)()


    # ---- eating


    def limits():
        """Soft and hard, in this order."""
        import resource
        names = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_MEMLOCK")
        return {name: resource.getrlimit(getattr(resource, name)) for name in names}


    def raise_limits():
        import resource
        for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
            resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return "raised"


    def loop_in_c():
        import re
        return re.match(r"(a+)+$", "a" * 60 + "b")


    def deaf():
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            pass


    def stop():
        os.kill(os.getpid(), signal.SIGSTOP)


    def flee(seconds):
        """If processes can be started: leave the group and the session, twice."""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                os.closerange(0, 256)
                time.sleep(seconds)
            os._exit(0)
        os.wait()
        return "fled"


    def mapped(size, flags, protection=3, file=-1):
        """The address of a mapping by the call itself; the name of the error where it is refused."""
        result = libc.syscall(ctypes.c_long(222 if ARM else 9), *[ctypes.c_long(n) for n in (0, size, protection, flags, file, 0)])
        return errno.errorcode[ctypes.get_errno()] if result == -1 else result


    # ---- memory that a limit might not count


    BLOCKS = []


    def fill(how, size=1 << 26, most=1 << 31):
        """Take memory in this way until it is refused; how much was had, in bytes. It stays taken."""
        shared, grows = 0x21, 0x100 | 0x22
        done = 0
        while done < most:
            if how == "tensor":
                try:
                    BLOCKS.append(torch.ones(size // 4))
                except RuntimeError:
                    return done
            else:
                file = os.open(library(), os.O_RDONLY) if how == "a file" else -1
                where = mapped(size, {"private": 0x22, "noreserve": 0x4022, "shared": shared, "grows": grows, "a file": 2, "read only": 0x22}[how],
                               1 if how == "read only" else 3, file)
                if file >= 0:
                    os.close(file)
                if isinstance(where, str):
                    return done
                if how != "read only":
                    ctypes.memset(where, 1, size)
            done += size
        return done


    def library():
        """The largest of torch's, to map."""
        folder = os.path.join(os.path.dirname(torch.__file__), "lib")
        return max((os.path.join(folder, name) for name in os.listdir(folder)), key=os.path.getsize)


    def addresses():
        """A reservation of two to the power of forty bytes, which costs nothing but the tables of its pages."""
        return mapped(1 << 40, 0x4022, 1)


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
''')
