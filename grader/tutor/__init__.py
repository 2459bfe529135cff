"""`headway tutor`: an MCP server for the assistant that a learner uses.

    tools.py      the tools: functions that return what a command of the kit printed, or a part of it
    mcp_server.py makes an MCP server of the tools and of the prompts in prompts.md
    files.py      the files that assistants read, written by `headway tutor --files`

The tools read the lessons, without the answers to their questions; all else is what commands print, which is what a
learner may see: no reference, no later hint, no code of a known mistake. The learner's code runs in a worker of such a
command, on Linux in the sandbox.
"""
