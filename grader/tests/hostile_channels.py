"""The third part of the chapter of attacks in `hostile.py`: passing a message to another worker, and memory that no limit counts."""

CHANNELS = '''
    # ---- messages


    MACHINE, OPENED = int(ARM), []
    CHANNELS = {
        "mincore": (27, 232), "cachestat": (451, 451), "readahead": (187, 213), "posix_fadvise": (221, 223), "sync_file_range": (277, 84),
        "preadv": (295, 69), "preadv2": (327, 286), "io_uring_setup": (425, 425), "mlock": (149, 228), "mlockall": (151, 230), "mlock2": (325, 284),
        "munlock": (150, 229), "getrusage": (98, 165), "sysinfo": (99, 179), "flock": (73, 32), "futex_waitv": (449, 449), "futex_wake": (454, 454),
        "futex_wait": (455, 455), "futex_requeue": (456, 456), "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186),
        "mq_open": (240, 180), "memfd_create": (319, 279), "memfd_secret": (447, 447), "add_key": (248, 217), "request_key": (249, 218),
        "keyctl": (250, 219), "move_pages": (279, 239), "mbind": (237, 235), "get_mempolicy": (239, 236), "process_madvise": (440, 440),
        "remap_file_pages": (216, 234), "msync": (26, 227), "capget": (125, 90), "get_robust_list": (274, 100), "set_tid_address": (218, 96),
        "kcmp": (312, 272), "ioprio_set": (251, 30), "ioprio_get": (252, 31), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
        "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274), "sched_rr_get_interval": (148, 127),
        "statfs": (137, 43), "fstatfs": (138, 44), "sync": (162, 81), "syncfs": (306, 267), "fsync": (74, 82), "syslog": (103, 116),
        "quotactl": (179, 60), "personality": (135, 92), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "userfaultfd": (323, 282),
        "perf_event_open": (298, 241), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27), "fanotify_init": (300, 262), "utimensat": (280, 88),
        "statmount": (457, 457), "listmount": (458, 458), "name_to_handle_at": (303, 264), "process_vm_readv": (310, 270), "pidfd_open": (434, 434),
        "mseal": (462, 462), "map_shadow_stack": (453, 453), "lsm_list_modules": (461, 461), "timer_create": (222, 107), "timerfd_create": (283, 85),
    }


    def channels():
        """What each of these calls answers, with arguments that would do nothing where it is allowed."""
        return {name: call(*numbers, 0, 0, 0, 0, 0, 0) for name, numbers in CHANNELS.items()}


    def a_file():
        """A file that every worker may read, opened once."""
        if not OPENED:
            OPENED.append(os.open(torch.__file__, os.O_RDONLY))
        return OPENED[0]


    def advise(numbers):
        """The answers to advice about an anonymous page, and about a page of a file."""
        own = mapped(4096, 0x22)
        file = mapped(4096, 2, 1, a_file())
        return [[call(28, 233, where, 4096, number) for where in (own, file)] for number in numbers]


    def mapped(size, flags, protection=3, file=-1):
        """The address of a mapping by the call itself; the name of the error where it is refused."""
        result = libc.syscall(ctypes.c_long((9, 222)[MACHINE]), *[ctypes.c_long(n) for n in (0, size, protection, flags, file, 0)])
        return errno.errorcode[ctypes.get_errno()] if result == -1 else result


    def maps(flags, of_file=False):
        found = mapped(4096, flags, 1 if of_file else 3, a_file() if of_file else -1)
        return found if isinstance(found, str) else "mapped"


    def futexes():
        """Waking and waiting in a page of a file, which would be the same futex for every worker: WAIT, WAKE, and the same by bits."""
        page = mapped(4096, 2, 1, a_file())
        soon = struct.pack("=qq", 0, 1)
        return [call(202, 98, page, operation, 0, ctypes.create_string_buffer(soon), 0, 0xFFFFFFFF) for operation in (0, 1, 9, 10, 3, 4)]


    def joins():
        """A thread of the C library's, which is waited for in the way that it waits: until the kernel has cleared its number."""
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.getpid, ctypes.c_void_p), None)
        result = ctypes.c_void_p()
        return [libc.pthread_join(thread, ctypes.byref(result)), result.value == os.getpid()]


    def others(pid):
        """Everything that could be queried about another process, or about the users of the machine."""
        room, clock = ctypes.create_string_buffer(4096), (~pid << 3) | 2
        return {
            "clock_gettime": call(228, 113, clock, room), "clock_getres": call(229, 114, clock, room), "clock_nanosleep": call(230, 115, clock, 0, room, 0),
            "sched_getaffinity": call(204, 123, pid, 128, room), "sched_getparam": call(143, 121, pid, room), "sched_getscheduler": call(145, 120, pid),
            "getpriority": call(140, 141, 0, pid), "its group's": call(140, 141, 1, 0), "its user's": call(140, 141, 2, 0), "getpgid": call(121, 155, pid),
            "getsid": call(124, 156, pid), "prlimit64": call(302, 261, pid, 7, 0, room), "kill": call(62, 129, pid, 0), "lock": call(72, 25, a_file(), 6, room),
            "lock of a file": call(72, 25, a_file(), 37, room), "lease": call(72, 25, a_file(), 1024, 0), "is leased": call(72, 25, a_file(), 1025, 0),
            "notify": call(72, 25, a_file(), 1026, 1), "hint": call(72, 25, a_file(), 1036, room), "seals": call(72, 25, a_file(), 1034, 0),
        }


    def oneself():
        """The same, about itself: all of it is allowed."""
        return [time.process_time() > 0, time.thread_time() > 0, len(os.sched_getaffinity(0)) > 0, os.getpriority(0, 0) < 20, os.getsid(0) > 0, os.getpgid(0) > 0]


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
'''
