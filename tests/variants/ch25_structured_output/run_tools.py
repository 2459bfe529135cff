# variant: one loop that counts, with lists that grow
def run_tools(model_step, tools, messages, limit):
    if limit <= 0:
        raise ValueError(f"limit must be at least 1, not {limit}")
    everything = []
    for message in messages:
        everything.append({"role": message["role"], "content": message["content"]})
    asked = 0
    while True:
        text = model_step(list(everything))
        asked += 1
        if CALL not in text:
            everything.append({"role": "assistant", "content": text})
            return everything
        if asked == limit:
            everything.append({"role": "assistant", "content": f"I stop here, because I may write {limit} times."})
            return everything
        everything.append({"role": "assistant", "content": text})
        try:
            name, arguments = parse_call(text)
            if name in tools:
                came_back = str(tools[name](**arguments))
            else:
                came_back = "error: unknown tool " + name + ", known are: " + " ".join(tools)
        except Exception as error:
            came_back = "error: " + type(error).__name__ + " " + str(error)
        everything.append({"role": "user", "content": RESULT + came_back + END_OF_RESULT})


# variant: a recursive function; each call of it is one text of the model
def run_tools(model_step, tools, messages, limit):
    assert limit >= 1, f"limit = {limit}"

    def say(role, content):
        return {"role": role, "content": content}

    def go_on(chat, left):
        text = model_step(chat)
        if CALL not in text:
            return chat + [say("assistant", text)]
        if left == 1:
            return chat + [say("assistant", f"The model has asked for tools {limit} times, and may not ask again.")]
        result = answer_of(text)
        return go_on(chat + [say("assistant", text), say("user", f"{RESULT}{result}{END_OF_RESULT}")], left - 1)

    def answer_of(text):
        try:
            name, arguments = parse_call(text)
            tool = tools.get(name)
            return f"error: {name} is none of the tools {sorted(tools)}" if tool is None else f"{tool(**arguments)}"
        except Exception as problem:
            return f"error: {type(problem).__name__}({problem})"

    return go_on([message.copy() for message in map(dict, messages)], limit)


# variant: a generator of messages
from itertools import count


def conversation(model_step, tools, chat, limit):
    for n in count(1):
        text = model_step(list(chat))
        call = CALL in text
        if call and n >= limit:
            text, call = f"No answer after {limit} text(s), so I stop.", False
        yield {"role": "assistant", "content": text}
        if not call:
            return
        try:
            name, arguments = parse_call(text)
            came = str(tools[name](**arguments)) if name in tools else f"error: no tool is called {name!r}, only {list(tools)}"
        except Exception as e:
            came = f"error: a {e.__class__.__name__} says: {e}"
        yield {"role": "user", "content": "".join((RESULT, came, END_OF_RESULT))}


def run_tools(model_step, tools, messages, limit):
    if not limit > 0:
        raise ValueError(f"{limit=} is below 1")
    chat = [{**message} for message in messages]
    for message in conversation(model_step, tools, chat, limit):
        chat.append(message)
    return chat
