"""`headway tutor`: an MCP server for the assistant that a learner uses.

    commands.py   runs commands of the kit as child processes, with fixed arguments
    guard.py      what this process may open and start, enforced by an audit hook
    tools.py      the tools: functions that return what such a command printed, or a part of it
    server.py     makes an MCP server of the tools and of the prompts in prompts.md
    files.py      the files that assistants read, written by `headway tutor --files`

The process never has the reference, later hints, known mistakes or the syllabus: the child processes read them, and
print only what a learner may see. The learner's code runs in a worker of such a child, on Linux in the sandbox.
"""
