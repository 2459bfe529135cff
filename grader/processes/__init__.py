"""The process layer: a server that has torch and the kit loaded runs each job in a separate process, within tenths of a
second.

Everything that runs graded tests in the background uses it: `headway check`, the watch, pictures, the class grader,
dev-check, the proofs.

    client (client.py)             server (server.py, server_process.py)      process of one run
    ------------------             -------------------------------------      ------------------
    ServerProcess()  --starts-->   load_kit (preloaded.py): torch and the
                                   kit, once what takes long the first time
                     <--address--  on standard output
    ask(job)         ---job---->   requested(): is the token right, is the
                                   job of a type that the Service knows?
                     <-accepted--  ForkingStarter.start() (forked.py)  ---->  new session and process group, limits,
                                   or PrestartingStarter.start() where        streams to /dev/null, dies with the server
                                   forking is not safe (prestarted.py)        Service.runners[type(job)]:
                                   the server goes on                           CheckJob    check (check_run.py)
                                                                                PictureJob  draw (check_run.py)
                                                                                GradeJob    grade (classroom/judging/)
                                                                                TryJob, MutantsJob, CountJob (quality/)
                                   <--------- alive: seconds -------------    Report.extend_deadline, before a slow step
                     <--messages-  <--------- text, begun, verdict, ... ---   Report (report.py); job.py lists them
                     <---done----  end of the run: kill its process group,  <-- done, and exit
                                   then all orphans that it left
                                   (system/process_tree.py)

How a run ends otherwise:

    its process dies, or is silent     the server kills what is left of it; Job.after_crash() says whether the run
      beyond its deadline              starts once more (`again`) with the code in a worker, where a crash costs one
                                       test, or is over (`trouble`)
    the client closes the connection   the server kills the run: a newer save, or Control-C
    the client's process ends          the server's standard input, its lifeline, closes: it ends all runs and itself
                                       (a server that stays, kept_server.py, ends so with the terminal's session)
    the server is killed               the kernel kills its runs (die_with_parent); their workers' sockets close
    the kit's files change             the server answers the next job with `stale` and ends; the client starts another

To run another type of job: a dataclass derived from `Job`, a function `(job, report) -> status`, and a `Service` that
connects them. Where forking is not safe (macOS, Windows) `PrestartingStarter` keeps one process ahead that has loaded
everything and connected to the server (system/handshake.py); it runs one job.
"""
