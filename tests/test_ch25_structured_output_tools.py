"""Chapter 25, fourth part: calls of tools in a model's text, and the loop that runs them."""

from __future__ import annotations

import re

from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same

CALL, END_OF_CALL, RESULT, END_OF_RESULT = "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"


def call_of(inner):
    return f"{CALL}{inner}{END_OF_CALL}"


# ---- parse_call


def check_calls(learner, cases):
    """Each (text, call) where the text has another first call; None for none."""
    got = [learner.parse_call(text) for text, _ in cases]
    for mine, (text, call) in zip(got, cases):
        if call is None or not isinstance(mine, tuple | list):
            same(mine, call, f"parse_call({text!r})")
        else:
            same([part if not isinstance(part, dict) else dict(sorted(part.items())) for part in mine], [call[0], dict(sorted(call[1].items()))], f"parse_call({text!r})")


def check_wrong_calls(learner, cases):
    """Each (inner text, why) is refused, and the last call, which is like them, is fine."""
    fine = learner.parse_call(call_of('{"name": "add", "arguments": {"a": 1}}'))
    for inner, why in cases:
        refuses(lambda inner=inner: learner.parse_call(call_of(inner)), because=why)
    same(list(fine) if isinstance(fine, tuple) else fine, ["add", {"a": 1}], "the call of add with the argument a = 1")


@exercise("parse_call", weight=3)
def test_the_name_and_the_arguments_are_read(learner):
    """The name is a text, and the arguments are a dict with the values that JSON gives them. The order of the keys and white space do not matter."""
    values = '{"name": "look_up", "arguments": {"word": "caf\\u00e9 \\"x\\"", "n": -3, "rate": 2.5, "all": true, "none": null, "list": [1, [false]], "inner": {"a": {}}}}'
    check_calls(learner, [
        (call_of('{"name": "add", "arguments": {"a": 1, "b": 2}}'), ("add", {"a": 1, "b": 2})),
        (call_of('{"arguments": {"x": "y"}, "name": "echo"}'), ("echo", {"x": "y"})),
        (call_of('\n  {\n"name" :"now" ,"arguments":{ }}\t\n'), ("now", {})),
        (call_of(values), ("look_up", {"word": 'café "x"', "n": -3, "rate": 2.5, "all": True, "none": None, "list": [1, [False]], "inner": {"a": {}}})),
        (call_of('{"name": "É €", "arguments": {"": "NaN", "name": "Infinity", "arguments": 1e3}}'), ("É €", {"": "NaN", "name": "Infinity", "arguments": 1000.0})),
        (call_of('{"name": "print", "arguments": {"code": "__import__(\'os\')"}}'), ("print", {"code": "__import__('os')"})),
    ])  # fmt: skip


@exercise("parse_call", weight=2)
def test_a_text_without_a_call_has_none(learner):
    """Without <tool_call> the result is None, whatever else is in the text: JSON alone, the end of a call, or similar words."""
    texts = ["", "The answer is 3.", '{"name": "add", "arguments": {"a": 1}}', "</tool_call>", '<tool_response>{"name": "add", "arguments": {}}</tool_response>', "<TOOL_CALL>{}</TOOL_CALL>", "<tool_calls>{}</tool_calls>", "< tool_call>{}</tool_call>", "tool_call", "<tool_call"]
    fine = (call_of('{"name": "add", "arguments": {}}'), ("add", {}))
    check_calls(learner, [fine, *((text, None) for text in texts)])


@exercise("parse_call", weight=3)
def test_the_first_call_counts_and_the_text_around_it_does_not(learner):
    """What is before the first <tool_call> and behind the next </tool_call> does not matter, with braces, tags or further calls in it."""
    add, mul = call_of('{"name": "add", "arguments": {"a": 1}}'), call_of('{"name": "mul", "arguments": {}}')
    check_calls(learner, [
        (f"Let me see.\n{add}\nThat should do it.", ("add", {"a": 1})),
        (f"{{I think}} {{}} </tool_call> {add} {{ }} [", ("add", {"a": 1})),
        (f"{add}{mul}", ("add", {"a": 1})),
        (f"{mul} and then {add}", ("mul", {})),
        (f"{add}{CALL}{{broken", ("add", {"a": 1})),
        (f"{add}{call_of('[]')}", ("add", {"a": 1})),
        (call_of('{"name": "say", "arguments": {"text": "}{ <tool_call> {\\"name\\": 1} ]"}}'), ("say", {"text": '}{ <tool_call> {"name": 1} ]'})),
        (call_of('{"name": "say", "arguments": {"text": "<\\/tool_call>"}}'), ("say", {"text": "</tool_call>"})),
    ])  # fmt: skip
    refuses(lambda: learner.parse_call(call_of("[]") + add), because="the first call is a list, whatever the second one is")
    text = f'{CALL}{{"name": "say", "arguments": {{"text": "{END_OF_CALL}"}}}}{END_OF_CALL}'
    refuses(lambda: learner.parse_call(text), because="the call ends before the next </tool_call>, also if this is in a text, so its JSON is cut off")


@exercise("parse_call", weight=2)
def test_a_call_needs_its_end(learner):
    """A call without </tool_call> behind it raises a ValueError, also if its JSON is complete, and if the end is in front of it."""
    inner = '{"name": "add", "arguments": {"a": 1}}'
    fine = learner.parse_call(f"</tool_call>{call_of(inner)}")
    for text in (CALL, CALL + inner, f"{END_OF_CALL}{CALL}{inner}", f"{CALL}{inner}<tool_call>", f"{CALL}{inner}</tool_call", f"I think {CALL}", f"{CALL}{inner}</TOOL_CALL>"):
        refuses(lambda text=text: learner.parse_call(text), because="the call has no </tool_call> at its end")
    same(list(fine) if isinstance(fine, tuple) else fine, ["add", {"a": 1}], "the call behind a </tool_call>")


@exercise("parse_call", weight=2)
def test_what_is_no_json_is_refused(learner):
    """Whatever json.loads cannot read raises a ValueError: broken or empty texts, Python's way to write values, and what is nested too deeply."""
    check_wrong_calls(learner, [
        ("", "nothing is between the tags"), ("  \n", "nothing is between the tags"), ("add(1, 2)", "this is no JSON"), ('{"name": "add", "arguments": {"a": 1}', "a brace is missing"),
        ('{"name": "add", "arguments": {"a": 1}}}', "there is one brace too many"), ('{"name": "add", "arguments": {"a": 1},}', "JSON has no comma at the end"),
        ("{'name': 'add', 'arguments': {'a': 1}}", "JSON has double quotes only"), ('{"name": "add", "arguments": {"a": True}}', "JSON has true, not True"),
        ('{"name": "add", "arguments": {"a": None}}', "JSON has null, not None"), ('{"name": "add", "arguments": {"a": (1, 2)}}', "JSON has no tuples"),
        ('{"name": "add", "arguments": {"a": 1 + 1}}', "JSON has no sums"), ('{"name": "add"} {"arguments": {}}', "these are two values"),
        ('x {"name": "add", "arguments": {}}', "something is before the object"), ('```json\n{"name": "add", "arguments": {}}\n```', "something is around the object"),
        ("[" * 100_000, "this is nested too deeply"), ('{"name": "add", "arguments": ' + '{"a": ' * 100_000, "this is nested too deeply"),
    ])  # fmt: skip


@exercise("parse_call", weight=2)
def test_nan_and_infinity_are_no_json(learner):
    """NaN, Infinity and -Infinity raise a ValueError, although Python's json reads them unless it is told otherwise."""
    cases = [(f'{{"name": "add", "arguments": {{"a": {value}}}}}', f"{value} is no JSON") for value in ("NaN", "Infinity", "-Infinity", "[1, NaN]", '{"b": [Infinity]}')]
    check_wrong_calls(learner, [*cases, ("NaN", "NaN is no JSON")])


@exercise("parse_call", weight=3)
def test_a_call_is_an_object_with_exactly_two_keys(learner):
    """Any other JSON raises a ValueError: a list, a number, a text or null, and an object with a key too few or too many, or with values of other types."""
    check_wrong_calls(learner, [
        *((value, "this is no object") for value in ("[]", "null", "3", "true", '"add"', '["name", "arguments"]', '[["name", "add"], ["arguments", {}]]', '[{"name": "add", "arguments": {}}]')),
        ("{}", "both keys are missing"), ('{"name": "add"}', "the arguments are missing"), ('{"arguments": {"a": 1}}', "the name is missing"),
        ('{"name": "add", "arguments": {}, "id": 3}', "there is a third key"), ('{"name": "add", "parameters": {"a": 1}}', "a key has another name"), ('{"Name": "add", "arguments": {}}', "a key has another name"),
        *((f'{{"name": {name}, "arguments": {{}}}}', f"the name is {name}, not a text") for name in ("1", "null", "true", '["add"]', '{"add": 1}')),
        *((f'{{"name": "add", "arguments": {value}}}', f"the arguments are {value}, not an object") for value in ("[]", "null", "1", '"a"', '"{}"', "[[]]", '[["a", 1]]', "false")),
    ])  # fmt: skip


def reading_changes_torch(parse_call, inner):
    """How parse_call ends if its text would set an attribute of torch, and whether it did."""
    import torch

    torch.was_changed = False
    try:
        found = parse_call(f"<tool_call>{inner}</tool_call>")
    except (ValueError, AssertionError):
        found = "a ValueError"
    except Exception as problem:
        found = type(problem).__name__
    changed = torch.was_changed
    del torch.was_changed
    return [found, changed]


@exercise("parse_call", weight=2)
def test_nothing_in_the_text_is_run(learner):
    """A text that would change something if Python evaluated it changes nothing. It is no JSON, so it raises a ValueError."""
    change = "__import__('torch').__dict__.update(was_changed=True)"
    look = learner.bring(reading_changes_torch)
    cases = [change, f'{{"name": "add", "arguments": {{"a": {change}}}}}', f'{{"name": str({change}), "arguments": {{}}}}', f"[{change}]"]
    got = [look(learner.parse_call, inner) for inner in cases]
    as_text = look(learner.parse_call, f'{{"name": "add", "arguments": {{"a": "{change}"}}}}')
    for inner, (found, changed) in zip(cases, got):
        holds(not changed, f"the text {inner!r} was run as Python: a model could do anything on this computer")
        same(found, "a ValueError", f"what came of {inner!r}")
    holds(not as_text[1], "a text among the arguments was run as Python: a model could do anything on this computer")
    same([list(as_text[0]) if isinstance(as_text[0], tuple) else as_text[0]], [["add", {"a": change}]], "a call with a text that looks like Python")


# ---- run_tools


def talk(run_tools, texts, messages, limit, after=None):
    """What run_tools returns for a model that says these texts, what the model was given each time, and what the tools did.

    The texts end with one that no conversation reaches. `after` is a text that the tool `surprise` returns.
    """
    given, done = [], []

    def model_step(chat):
        given.append([dict(message) for message in chat] if type(chat) is list else f"a {type(chat).__name__}")
        return texts[min(len(given), len(texts)) - 1]

    class Unwritable:
        def __str__(self):
            raise OSError("this value cannot be written")

        def __repr__(self):
            return "Unwritable()"

    class Odd:
        def __str__(self):
            return "odd"

        def __repr__(self):
            return "Odd()"

    class OwnError(Exception):
        pass

    def add(a, b=10):
        done.append(["add", a, b])
        return a + b

    def echo(**arguments):
        done.append(["echo", *sorted(arguments)])
        return arguments.get("value")

    def count():
        done.append(["count"])
        return len(done)

    def fail(kind="own"):
        done.append(["fail", kind])
        raise {"own": OwnError("the cellar is empty"), "key": LookupError("no such word"), "silent": OwnError()}[kind]

    def interrupt(kind="keyboard"):
        done.append(["interrupt", kind])
        raise {"keyboard": KeyboardInterrupt(), "exit": SystemExit(3)}[kind]

    tools = {
        "add": add,
        "echo": echo,
        "count": count,
        "fail": fail,
        "interrupt": interrupt,
        "unwritable": lambda: done.append(["unwritable"]) or Unwritable(),
        "odd": lambda: Odd(),
        "surprise": lambda: after,
    }
    try:
        result = run_tools(model_step, tools, messages, limit)
    except (KeyboardInterrupt, SystemExit) as end:
        result = type(end).__name__
    return {"result": result, "given": given, "done": done}


def assistant(text):
    return {"role": "assistant", "content": text}


def returned(text):
    return {"role": "user", "content": f"{RESULT}{text}{END_OF_RESULT}"}


QUESTION = [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "How much?"}]
ADD = call_of('{"name": "add", "arguments": {"a": 1, "b": 2}}')
COUNT = call_of('{"name": "count", "arguments": {}}')
NEVER = "No one should ask for this text."


def called(name, arguments="{}"):
    return call_of(f'{{"name": "{name}", "arguments": {arguments}}}')


def conversations(learner, cases, limit=9):
    """What came of each list of texts."""
    return [learner.bring(talk)(learner.run_tools, [*texts, NEVER], list(QUESTION), limit) for texts in cases]


def results_of(learner, texts, after=None):
    """What came back from each of these calls, which a model makes one after the other; then it answers."""
    found = learner.bring(talk)(learner.run_tools, [*texts, "Done.", NEVER], list(QUESTION), len(texts) + 1, after)["result"]
    holds(isinstance(found, list) and len(found) == 2 * len(texts) + 3, f"{len(texts)} calls and an answer after 2 messages should give {2 * len(texts) + 3} messages")
    contents = [message.get("content") for message in found[3:-1:2]]
    for content in contents:
        whole = isinstance(content, str) and content.startswith(RESULT) and content.endswith(END_OF_RESULT)
        holds(whole, f"what comes back begins with {RESULT} and ends with {END_OF_RESULT}; this came back: {content!r}")
    return [content.removeprefix(RESULT).removesuffix(END_OF_RESULT) for content in contents]


@exercise("run_tools", weight=3)
def test_a_text_without_a_call_is_the_answer(learner):
    """The model is asked once, and its text is the last message, of the role assistant, behind all messages that were given."""
    texts = ["It is 3.", "", '{"name": "add", "arguments": {"a": 1}}', "</tool_call>", "error: <tool_response>"]
    got = conversations(learner, [[text] for text in texts])
    once = learner.bring(talk)(learner.run_tools, ["Yes.", NEVER], [], 1)
    as_tuple = learner.bring(talk)(learner.run_tools, ["Yes.", NEVER], tuple(QUESTION), 2)
    for text, found in zip(texts, got):
        same(found["result"], [*QUESTION, assistant(text)], f"all messages after the answer {text!r}")
        same(found["given"], [QUESTION], "what the model was given")
    same(once["result"], [assistant("Yes.")], "all messages without any before, with limit = 1")
    same(as_tuple["result"], [*QUESTION, assistant("Yes.")], "all messages if those before are a tuple")


@exercise("run_tools", weight=3)
def test_a_call_and_its_result_are_added(learner):
    """A call runs the tool with its arguments by name. The model's own text and the result become messages, and the model is given all of them. This goes on until it answers."""
    text = f"I add.\n{ADD}\nSo."
    talks = conversations(learner, [[text, "3"], [ADD, called("add", '{"b": 5, "a": 1}'), COUNT, called("add", '{"a": 7}'), "done"]])
    first = [*QUESTION, assistant(text), returned("3")]
    second = [assistant(ADD), returned("3"), assistant(called("add", '{"b": 5, "a": 1}')), returned("6"), assistant(COUNT), returned("3"), assistant(called("add", '{"a": 7}')), returned("17")]
    same(talks[0]["result"], [*first, assistant("3")], "all messages after one call")
    same(talks[0]["given"], [QUESTION, first], "what the model was given each time")
    same(talks[1]["result"], [*QUESTION, *second, assistant("done")], "all messages after four calls")
    same(talks[1]["given"], [[*QUESTION, *second[: 2 * n]] for n in range(5)], "what the model was given each time")
    same(talks[1]["done"], [["add", 1, 2], ["add", 1, 5], ["count"], ["add", 7, 10]], "what the tools were called with")


@exercise("run_tools", weight=2)
def test_results_are_written_as_by_str(learner):
    """What came back is str(result), whatever the result is, directly between the two tags. The arguments may have any names and values."""
    values = {'"a b"': "a b", '""': "", "null": "None", "[1, 2.5]": "[1, 2.5]", "true": "True", '{"x": "é"}': "{'x': 'é'}", '"<tool_response>"': "<tool_response>", "0": "0", '"error: no"': "error: no", '"  x\\n"': "  x\n"}
    names = ("name", "arguments", "text", "tools", "limit", "self", "messages", "tool")
    got = results_of(learner, [*(called("echo", f'{{"value": {value}}}') for value in values), called("odd"), *(called("echo", f'{{"{name}": 1, "value": 5}}') for name in names)])
    first_only = conversations(learner, [[f"{ADD} {COUNT}", COUNT, "done"]])[0]
    call_inside = results_of(learner, [called("surprise"), called("surprise")], after=ADD)
    for mine, expected in zip(got, [*values.values(), "odd", *["5"] * len(names)]):
        same(mine, expected, "what came back")
    same(first_only["done"], [["add", 1, 2], ["count"]], "what the tools were called with, if a text has two calls")
    same(call_inside, [ADD, ADD], "what came back from a tool that returns the text of a call")


def message_of(parse_call, text):
    """The class and the message of the error that parse_call raises."""
    try:
        parse_call(text)
    except (ValueError, AssertionError) as problem:
        return [type(problem).__name__, str(problem)]
    return ["no error", ""]


def check_errors(contents, expected):
    """Each content is a text that begins with "error: " and has these words."""
    for content, words in zip(contents, expected):
        holds(content.startswith("error: "), f'what comes back after an error begins with "error: "; this came back: {content!r}')
        missing = [word for word in words if word not in content]
        holds(not missing, f"what came back after an error was {content!r}; it should contain {' and '.join(map(repr, missing))}")


@exercise("run_tools", weight=2)
def test_an_unknown_tool_comes_back_with_the_names_of_the_tools(learner):
    """A tool that does not exist is an error that the model reads, with the tool's name and the names of all tools. It may try again."""
    names = ["sub", "Add", "", "add ", "print", "eval", "__import__", "keys"]
    got = results_of(learner, [called(name) for name in names])
    again = conversations(learner, [[called("plus", '{"a": 1}'), ADD, "3"]])[0]
    tools = ["add", "echo", "count", "fail", "interrupt", "unwritable", "odd", "surprise"]
    check_errors(got, [[name, *tools] for name in names])
    same(again["done"], [["add", 1, 2]], "what the tools were called with after a call of an unknown tool")
    same(again["result"][4:], [assistant(ADD), returned("3"), assistant("3")], "the messages after a call of an unknown tool")


@exercise("run_tools", weight=3)
def test_errors_come_back_as_text(learner):
    """Wrong arguments, an exception in the tool, and a result that str cannot write come back as "error: ", the class and the message of the exception; then the model is asked again."""
    cases = {
        called("add", '{"a": 1, "c": 2}'): ["TypeError", "'c'"],
        called("add"): ["TypeError", "'a'"],
        called("add", '{"a": "x"}'): ["TypeError", 'can only concatenate str (not "int") to str'],
        called("fail"): ["OwnError", "the cellar is empty"],
        called("fail", '{"kind": "key"}'): ["LookupError", "no such word"],
        called("fail", '{"kind": "silent"}'): ["OwnError"],
        called("fail", '{"kind": "other"}'): ["KeyError", "other"],
        called("unwritable"): ["OSError", "this value cannot be written"],
    }
    check_errors(results_of(learner, list(cases)), cases.values())


@exercise("run_tools", weight=2)
def test_a_call_that_cannot_be_read_comes_back_as_text(learner):
    """If parse_call raises an error, its class and message come back: a broken call is no answer, and runs nothing."""
    texts = [call_of("{"), CALL, call_of("[]"), f"I call {CALL}add(1, 2)", call_of('{"name": "count"}'), call_of('{"name": "count", "arguments": []}')]
    expected = [learner.bring(message_of)(learner.parse_call, text) for text in texts]
    got = results_of(learner, texts)
    again = conversations(learner, [[texts[0], ADD, "3"]])[0]
    check_errors(got, expected)
    same(again["done"], [["add", 1, 2]], "what the tools were called with after a call that cannot be read")


@exercise("run_tools", weight=3)
def test_the_model_is_asked_at_most_limit_times(learner):
    """A call in the text number `limit` does not run, right or wrong. Instead of this text, the last message is a sentence of the assistant with the number `limit`."""
    go = learner.bring(talk)
    cases = [(limit, last) for limit in (1, 2, 3, 12) for last in (COUNT, call_of("{"))]
    got = [go(learner.run_tools, [COUNT] * (limit - 1) + [last, NEVER], list(QUESTION), limit) for limit, last in cases]
    in_time = [go(learner.run_tools, [COUNT] * (limit - 1) + ["Done.", NEVER], list(QUESTION), limit) for limit in (1, 2, 3)]
    for (limit, _), found in zip(cases, got):
        messages = [*QUESTION, *(message for n in range(1, limit) for message in (assistant(COUNT), returned(str(n))))]
        holds(isinstance(found["result"], list) and len(found["result"]) == len(messages) + 1, f"with limit = {limit} and nothing but calls there should be {len(messages) + 1} messages")
        *before, last = found["result"]
        same(before, messages, f"the messages before the last one, with limit = {limit}")
        same([len(found["given"]), len(found["done"])], [limit, limit - 1], f"how often the model and a tool were called with limit = {limit}")
        sentence = last.get("content")
        holds(last.get("role") == "assistant" and isinstance(sentence, str), "the last message should be a sentence of the assistant")
        holds(CALL not in sentence, f"the last message should be a sentence instead of the model's call; it is {sentence!r}")
        holds(re.search(rf"\b{limit}\b", sentence), f"the last message should contain the limit, {limit}; it is {sentence!r}")
    for limit, found in zip((1, 2, 3), in_time):
        same(found["result"][-1], assistant("Done."), f"the last message of a model whose text number {limit} is an answer, with limit = {limit}")


def changed_by_a_talk(run_tools, messages, texts):
    """The messages that were given after the caller has changed the result, and the result before that."""
    left = iter(texts)
    result = run_tools(lambda chat: next(left), {"add": lambda a, b: a + b}, messages, 5)
    found = [dict(message) for message in result]
    for message in result:
        message["content"] = "changed"
    result.append("changed")
    return [messages, found]


@exercise("run_tools", weight=2)
def test_the_messages_that_were_given_do_not_change(learner):
    """Neither the list nor the dicts in it change, also if the caller changes the result later."""
    look = learner.bring(changed_by_a_talk)
    got = [look(learner.run_tools, [dict(message) for message in QUESTION], texts) for texts in (["3"], [ADD, "3"])]
    for given, _ in got:
        same(given, QUESTION, "the caller's own messages, after the result was changed")
    same(got[1][1], [*QUESTION, assistant(ADD), returned("3"), assistant("3")], "all messages after one call")


@exercise("run_tools", weight=2)
def test_an_interrupt_ends_everything(learner):
    """KeyboardInterrupt and SystemExit of a tool are no errors for the model to read: they go on to the caller."""
    got = conversations(learner, [[called("interrupt"), "3"], [ADD, called("interrupt", '{"kind": "exit"}'), "3"], [ADD, "3"]])
    same([got[0]["result"], got[1]["result"]], ["KeyboardInterrupt", "SystemExit"], "how the two conversations ended")
    same([len(found["given"]) for found in got], [1, 2, 2], "how often the model was asked")
    same(got[2]["result"][-1], assistant("3"), "the answer of a conversation without an interrupt")


def talk_with_a_failing_model(run_tools, texts):
    """How a talk ends in which the model raises an error in place of each None."""
    left = iter(texts)

    def model_step(chat):
        text = next(left)
        if text is None:
            raise RuntimeError("there is no memory left for the model")
        return text

    try:
        return run_tools(model_step, {"count": lambda: 1}, [], 5)
    except RuntimeError as problem:
        return str(problem)


@exercise("run_tools")
def test_an_error_of_the_model_ends_everything(learner):
    """Only what parse_call or the call of a tool raises comes back as a message. An exception of model_step goes on to the caller."""
    go = learner.bring(talk_with_a_failing_model)
    got = [go(learner.run_tools, texts) for texts in ([None, "Done."], [COUNT, None, "Done."], [COUNT, "Done."])]
    for result, when in zip(got, ("first", "second")):
        same(result, "there is no memory left for the model", f"the message of the error that ends everything, if the model fails at the {when} time")
    same(got[2], [assistant(COUNT), returned("1"), assistant("Done.")], "all messages if the model does not fail")


@exercise("run_tools")
def test_a_limit_below_1_is_refused(learner):
    """A limit of 0 or less raises a ValueError that names it; 1 is fine."""
    go = learner.bring(talk)
    fine = go(learner.run_tools, ["Yes.", NEVER], list(QUESTION), 1)
    for limit in (0, -2):
        refuses(lambda limit=limit: go(learner.run_tools, ["Yes.", NEVER], list(QUESTION), limit), naming={"limit": limit}, because="the model must be asked at least once")
    same(fine["result"], [*QUESTION, assistant("Yes.")], "all messages with limit = 1")
