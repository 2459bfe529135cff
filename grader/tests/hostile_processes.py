"""The second part of the chapter of attacks in `hostile.py`: starting processes, reaching others by calls of every number, and using up resources."""

PROCESSES = '''
    # ---- more of itself


    def fork():
        return os.fork()


    def fork_by_number(which):
        if which == "fork":
            return call(57, 9999, )
        if which == "vfork":
            return call(58, 9999)
        if which == "clone":
            return call(56, 220, 17, 0, 0, 0, 0)
        if which == "clone3":
            return call(435, 435, ctypes.create_string_buffer(struct.pack("=QQQQQQQQ", 0, 0, 0, 0, 17, 0, 0, 0)), 64)


    def run(program):
        os.execv(program, [program])


    def spawn(program):
        return os.posix_spawn(program, [program], {})


    def system():
        return os.system("true")


    def bomb_of_threads():
        threads = []
        try:
            for _ in range(100_000):
                thread = threading.Thread(target=time.sleep, args=(600,), daemon=True)
                thread.start()
                threads.append(thread)
        finally:
            sys.stdout.write(str(len(threads)))


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


    def by_number(name, pid=0):
        """A dangerous call by its number, past Python and the C library."""
        room = ctypes.create_string_buffer(4096)
        table = {
            "ptrace": (101, 117, 16, pid, 0, 0),
            "process_vm_readv": (310, 270, pid, room, 1, room, 1, 0),
            "process_vm_writev": (311, 271, pid, room, 1, room, 1, 0),
            "kill": (62, 129, pid, 9),
            "tkill": (200, 130, pid, 9),
            "tgkill": (234, 131, pid, pid, 9),
            "rt_sigqueueinfo": (129, 138, pid, 9, room),
            "pidfd_open": (434, 434, pid, 0),
            "io_uring_setup": (425, 425, 8, room),
            "io_uring_enter": (426, 426, 3, 1, 0, 0, 0, 0),
            "bpf": (321, 280, 0, room, 72),
            "perf_event_open": (298, 241, room, 0, -1, -1, 0),
            "userfaultfd": (323, 282, 1),
            "keyctl": (250, 219, 0, -3, 0),
            "add_key": (248, 217, b"user", b"a", b"b", 1, -3),
            "mount": (165, 40, b"none", b"/nowhere", b"tmpfs", 0, 0),
            "umount2": (166, 39, b"/nowhere", 0),
            "fsopen": (430, 430, b"tmpfs", 0),
            "open_tree": (428, 428, -100, b"/", 0),
            "pivot_root": (155, 41, b"/", b"/"),
            "chroot": (161, 51, b"/"),
            "unshare": (272, 97, 0x10000000),
            "setns": (308, 268, 0, 0),
            "execve": (59, 221, b"/bin/true", 0, 0),
            "execveat": (322, 281, -100, b"/bin/true", 0, 0, 0),
            "memfd_create": (319, 279, b"a", 0),
            "name_to_handle_at": (303, 264, -100, b"/etc/passwd", room, room, 0),
            "open_by_handle_at": (304, 265, -100, room, 0),
            "openat2": (437, 437, -100, b"/etc/passwd", room, 24),
            "socket": (41, 198, 2, 2, 0),
            "sendmsg": (46, 211, 3, room, 0),
            "shmget": (29, 194, 0, 4096, 0o1777),
            "msgget": (68, 186, 0, 0o1777),
            "mq_open": (240, 180, b"a", 0o102, 0o777, 0),
            "setuid": (105, 146, 0),
            "sethostname": (170, 161, b"a", -1),
            "settimeofday": (164, 170, 0, 0),
            "reboot": (169, 142, 0, 0, 0, 0),
            "init_module": (175, 105, room, 1, room),
            "swapon": (167, 224, b"/nowhere", 0),
            "inotify_init1": (294, 26, 0),
            "fanotify_init": (300, 262, 0, 0),
            "timer_create": (222, 107, 0, 0, room),
            "sched_setaffinity": (203, 122, 0, 8, room),
            "setpriority": (141, 140, 0, 0, -5),
            "landlock_create_ruleset": (444, 444, 0, 0, 1),
            "seccomp": (317, 277, 1, 0, room),
            "pidfd_getfd": (438, 438, 3, 0, 0),
            "process_madvise": (440, 440, 3, room, 1, 0, 0),
            "memfd_secret": (447, 447, 0),
            "vmsplice": (278, 75, 1, room, 1, 0),
            "splice": (275, 76, 3, 0, 1, 0, 10, 0),
            "setrlimit": (160, 164, 9, room),
            "prctl_dumpable": (157, 167, 4, 1),
            "prctl_seccomp": (157, 167, 22, 2, room),
            "prctl_subreaper": (157, 167, 36, 1),
            "fcntl_setown": (72, 25, 0, 8, pid),
            "ioctl_push": (16, 29, 0, 0x5412, room),
            "a_number_not_given": (100_000, 100_000),
            "x32_getpid": (0x40000000 + 39, 0x40000000 + 172),
        }
        return call(*table[name])


    def other_processor():
        """A call as a 32-bit program makes it, where the numbers mean other things: 2 is fork."""
        code = bytes([0xB8, 2, 0, 0, 0, 0xCD, 0x80, 0xC3])
        page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        where = ctypes.addressof(ctypes.c_char.from_buffer(page))
        return ctypes.CFUNCTYPE(ctypes.c_int)(where)()


    # ---- eating


    def memory(how):
        if how == "tensor":
            return torch.ones(1 << 34).sum()
        if how == "list":
            kept = []
            while True:
                kept.append(bytearray(1 << 24))
        if how == "mapped":
            kept = []
            while True:
                page = mmap.mmap(-1, 1 << 24, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                page[::4096] = b"x" * (1 << 12)
                kept.append(page)
        if how == "string":
            return len("x" * (1 << 40))


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


    def descriptors():
        kept = []
        while True:
            kept.append(os.dup(0))


    def loop_in_c():
        import re
        return re.match(r"(a+)+$", "a" * 60 + "b")


    def flood():
        for _ in range(2000):
            os.write(1, b"x" * 65536)
            os.write(2, b"x" * 65536)
        return "written"


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
'''
