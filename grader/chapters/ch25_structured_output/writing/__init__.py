"""A published model writes texts that a program can read: `headway chat --json` and `headway chat --tools`.

token_guide.py which tokens may come next, as tensors that are computed once for a schema; writes a text with them
form.py        a conversation in which each answer is JSON that a schema accepts
calculator.py  computes what a text asks for, without running it
tool_chat.py   a conversation in which the model may call the calculator and look up a word of the book
"""
