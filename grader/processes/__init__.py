"""The process layer: a server that has torch and the kit loaded runs each job in a separate process, within tenths of a
second.

Everything that runs graded tests in the background uses it: `headway check`, the watch, pictures, the class grader,
dev-check, the proofs.

    client (client.py)             server (server.py, server_process.py)            process of one run
    ------------------             -------------------------------------            ------------------
    ServerProcess()  --starts-->   load_kit (preloaded.py): torch and the kit,
                                   do once what takes long the first time
                     <--address--  on standard output; if the service is public
                                   also in exercises/.headway/engine.json
    ask(job)         ---job---->   requested(): is the token right, is the job
                                   of a type that the Service knows?
                     <-accepted--  ForkingStarter.start() (forked.py)  -------->   new session and process group,
                     limits,
                                   or PrestartingStarter.start() where forking      streams to /dev/null, dies with the
                                   server is not safe (prestarted.py); the server goes on  |
                                                                                    Service.runners[type(job)]:
                                                                                      CheckJob    check
                                                                                      (check_run.py) PictureJob  draw
                                                                                      (picture_run.py) GradeJob    grade
                                                                                      (classroom/judging/server.py)
                                                                                      TryJob, MutantsJob, CountJob
                                                                                      (quality/server.py)
                                   <--------- alive: seconds -----------------------  Report.extend_deadline, before
                                   each slow step
                     <--messages-  <--------- text, begun, verdict, ... ------------  Report (report.py); job.py lists
                     them <---done----  end of the run: kill its process group, then   <-- done, and exit
                                   all orphans that it left (system/process_tree.py)
                                   ForkingStarter.fork_in_advance(): the process    copies the pages that the last run
                                   wrote to for the next run of the exercise  ---------->    (system/page_copies.py),
                                   and waits for its job

How a run ends otherwise:

    its process dies, or is silent     the server kills what is left of it; Job.after_crash() says whether the run
    starts once more (`again`)
      beyond its deadline              with the code in a worker, where a crash costs one test, or is over (`trouble`)
    the client closes the connection   the server kills the run: a newer save, or Control-C
    the client's process ends          the server's standard input, its lifeline, closes: it ends all runs and itself
    the server is killed               the kernel kills its runs (die_with_parent); their workers see their sockets
    close the kit's files change             the server answers the next job with `stale` and ends; the client starts
    another

To run another type of job: a dataclass derived from `Job`, a function `(job, report) -> status`, and a `Service` that
connects them. Where forking is not safe (macOS, Windows) `PrestartingStarter` keeps one process ahead that has loaded
everything and connected to the server (system/handshake.py); it runs one job.
"""
