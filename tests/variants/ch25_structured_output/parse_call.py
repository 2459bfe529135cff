# variant: find instead of partition, and one check after the other
import json


def parse_call(text):
    begin = text.find(CALL)
    if begin == -1:
        return None
    begin += len(CALL)
    end = text.find(END_OF_CALL, begin)
    if end == -1:
        raise ValueError("a call was begun and never ended")
    numbers = []
    try:
        value = json.loads(text[begin:end], parse_constant=numbers.append)
    except RecursionError:
        raise ValueError("the call is nested too deeply")
    if numbers:
        raise ValueError("NaN and Infinity are not possible")
    if type(value) is not dict:
        raise ValueError(f"a call is an object, not {type(value).__name__}")
    for key in ("name", "arguments"):
        if key not in value:
            raise ValueError(f"the call has no {key!r}")
    if len(value) > 2:
        raise ValueError("the call has other keys too")
    if type(value["name"]) is not str:
        raise ValueError("the name is no text")
    if type(value["arguments"]) is not dict:
        raise ValueError("the arguments are no object")
    return value["name"], value["arguments"]


# variant: a regular expression finds the call, and match checks it
import json
import re


def not_json(word):
    raise ValueError(word)


def parse_call(text):
    if CALL not in text:
        return None
    found = re.search(re.escape(CALL) + "(.*?)" + re.escape(END_OF_CALL), text, re.DOTALL)
    if found is None:
        raise ValueError(f"{END_OF_CALL} is missing")
    decoder = json.JSONDecoder(parse_constant=not_json)
    try:
        value = decoder.decode(found[1])
    except RecursionError as error:
        raise ValueError("too many brackets") from error
    match value:
        case {"name": str(name), "arguments": dict(arguments), **others} if not others:
            return name, arguments
    raise ValueError("this is no call")


# variant: split, and asserts
import json


def parse_call(text):
    parts = text.split(CALL, 1)
    if len(parts) < 2:
        return None
    assert END_OF_CALL in parts[1], "the end of the call is missing"
    inner = parts[1].split(END_OF_CALL, 1)[0]

    def constant(name):
        assert name is None, f"{name} is no JSON"

    try:
        value = json.loads(inner, parse_constant=constant)
    except RecursionError:
        value = None
    except json.JSONDecodeError as error:
        raise ValueError(f"the call is no JSON: {error.msg}")
    assert isinstance(value, dict) and sorted(value) == ["arguments", "name"], "the keys are wrong"
    assert isinstance(value["name"], str), "the name must be a text"
    assert isinstance(value["arguments"], dict), "the arguments must be an object"
    return value["name"], value["arguments"]
