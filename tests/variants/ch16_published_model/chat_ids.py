# variant: a function for one message
def chat_ids(tokenizer, messages):
    known = {"system", "user", "assistant"}
    bad = [message["role"] for message in messages if message["role"] not in known]
    if bad:
        raise ValueError(f"unknown role: {bad[0]}")
    if len(messages) == 0:
        raise ValueError("no messages")

    def framed(message):
        inside = tokenizer.encode(message["role"] + "\n" + message["content"])
        return tokenizer.encode("<|im_start|>", True) + list(inside) + tokenizer.encode("<|im_end|>\n", allow_special=True)

    first = [] if messages[0]["role"] == "system" else framed({"role": "system", "content": SYSTEM})
    return sum(map(framed, messages), first) + tokenizer.encode("<|im_start|>assistant\n", True)


# variant: extend in a loop, ids looked up in tokens
def chat_ids(tokenizer, messages):
    messages = list(messages)
    if not messages:
        raise ValueError("an empty chat")
    if messages[0]["role"] != "system":
        messages.insert(0, dict(role="system", content=SYSTEM))
    start, end, newline = (tokenizer.encode(text, allow_special=True) for text in (START, END, "\n"))
    ids = []
    for message in messages:
        role = message["role"]
        if role not in ("system", "user", "assistant"):
            raise ValueError(f"role {role!r}")
        ids.extend(start)
        ids.extend(tokenizer.encode(role + "\n" + message["content"], allow_special=False))
        ids.extend(end)
        ids.extend(newline)
    ids.extend(start)
    ids.extend(tokenizer.encode("assistant\n"))
    return ids


# variant: itertools
from itertools import chain


def chat_ids(tokenizer, messages):
    if not messages:
        raise ValueError("nothing was said")
    for role in {message["role"] for message in messages} - set(ROLES):
        raise ValueError(f"{role} is no role")
    said = [(message["role"], message["content"]) for message in messages]
    if said[0][0] != "system":
        said = [("system", SYSTEM)] + said
    mark = {special: tokenizer.encode(special, allow_special=True) for special in (START, END)}
    parts = chain.from_iterable((mark[START], tokenizer.encode(f"{role}\n{content}"), mark[END], tokenizer.encode("\n")) for role, content in said)
    return [*chain.from_iterable(parts), *mark[START], *tokenizer.encode("assistant\n")]
