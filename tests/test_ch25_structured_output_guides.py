"""Chapter 25, third part: guides through the JSON texts of a schema."""

from __future__ import annotations

import json
import random
from itertools import product

from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import example, given, settings
from strategies import seeds

few = settings(max_examples=6)

# ---- schemas and their values, by the rules of the docstring


def drawn_schema(draw, depth):
    kinds = ["string", "number", "integer", "boolean", "null", "enum", "enum"] + ["array", "object", "object"] * (2 if depth else 0)
    kind = draw.choice(kinds)
    if kind == "enum":
        return {"enum": draw.sample(["r", "red", "rose", "", "é€", 'q"\\', "\n\x01", 1, 10, 1.5, -3, True, False, None, 1e30], draw.randint(1, 5))}
    if kind == "array":
        return {"type": "array", "items": drawn_schema(draw, depth - 1)}
    if kind == "object":
        names = draw.sample(["a", "ab", "é", '"', "b c", "", "\\"], draw.randint(0, 3))
        return {"type": "object", "properties": {name: drawn_schema(draw, depth - 1) for name in names}, "required": [name for name in names if draw.random() < 0.5]}
    return {"type": kind}


def drawn_value(draw, schema):
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema["type"]
    if kind == "array":
        return [drawn_value(draw, schema["items"]) for _ in range(draw.randint(0, 3))]
    if kind == "object":
        names = [name for name in schema["properties"] if name in schema["required"] or draw.random() < 0.5]
        return {name: drawn_value(draw, schema["properties"][name]) for name in names}
    values = {"string": ["", "é€😀", 'a"b\\', "x\n\t/"], "number": [0, -1.5, 3.25, 10**14, 0.001], "integer": [0, -7, 10**14], "boolean": [True, False], "null": [None]}
    return draw.choice(values[kind])


def fits(value, schema):
    """Whether the schema holds for a value. True is not 1."""
    if "enum" in schema:
        return any(type(value) is type(other) and value == other for other in schema["enum"])
    if schema["type"] == "object":
        properties = schema.get("properties", {})
        return isinstance(value, dict) and set(schema.get("required", ())) <= set(value) <= set(properties) and all(fits(value[name], properties[name]) for name in value)
    if schema["type"] == "array":
        return isinstance(value, list) and all(fits(item, schema["items"]) for item in value)
    classes = {"string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,), "null": (type(None),)}
    return type(value) in classes[schema["type"]]


def written(value):
    return json.dumps(value, ensure_ascii=False)


# ---- what runs beside the guide


def verdicts(guide, texts):
    """For each text, how many of its bytes the guide allows, and whether a text may end there."""
    found = []
    for text in texts:
        whole = text.encode()
        count = 0
        while count < len(whole) and whole[count : count + 1] in guide.allowed(whole[:count]):
            count += 1
        found.append([count, b"" in guide.allowed(whole[:count])])
    return found


def takes(learner, schema, right, wrong=()):
    """The guide takes the right texts, and none of the others."""
    guide = learner.JsonGuide(schema)
    texts = [*right, *wrong]
    got = learner.bring(verdicts)(guide, texts)
    return lambda: compare_verdicts(got, texts, set(right), schema)


def compare_verdicts(got, texts, right, schema):
    for text, (count, may_end) in zip(texts, got):
        size = len(text.encode())
        if text in right:
            refused = text.encode()[:count].decode(errors="replace")
            holds(count == size, f"The schema {schema} allows {text}, but behind {refused!r} its next byte is not allowed")
        accepts = may_end and count == size
        same(accepts, text in right, f"whether the guide of {schema} accepts {text!r}")


@exercise("JsonGuide", weight=3)
@few
@given(seed=seeds)
@example(seed=3)
@example(seed=5)
def test_values_that_fit_can_be_written(learner, seed):
    """For each value that fits the schema, with its properties in the order of the schema, json.dumps(value, ensure_ascii=False) writes a text that the guide accepts. If the text is cut, the guide goes on."""
    draw, checks = random.Random(seed), []
    for _ in range(4):
        schema = drawn_schema(draw, 2)
        texts = list(dict.fromkeys(written(drawn_value(draw, schema)) for _ in range(4)))
        checks.append(takes(learner, schema, texts))
    for check in checks:
        check()


def walks(JsonGuide, schema, choices):
    """Texts that these choices among the allowed bytes write; None for one that has not ended."""
    guide, found = JsonGuide(schema), []
    for numbers in choices:
        text = b""
        for i, number in enumerate(numbers):
            allowed = sorted(guide.allowed(text))
            ends = [byte for byte in allowed if byte in (b"", b'"', b"]", b"}")]
            if i > 40 and ends:
                allowed = ends
            chosen = allowed[number % len(allowed)] if allowed else b""
            text += chosen
            if chosen == b"":
                break
        found.append(text if chosen == b"" else None)
    return found


@exercise("JsonGuide", weight=3)
@few
@given(seed=seeds)
@example(seed=2)
@example(seed=9)
def test_whatever_it_accepts_fits_the_schema(learner, seed):
    """Whichever allowed bytes are chosen, until b"" is chosen, json.loads reads the text, the schema holds for its value, and an object has no name twice. There is always a byte or b"" to choose."""
    draw, found = random.Random(seed), []
    for _ in range(4):
        schema = drawn_schema(draw, 2)
        choices = [[draw.randrange(10**6) for _ in range(150)] for _ in range(3)]
        found.append((schema, learner.bring(walks)(learner.JsonGuide, schema, choices)))
    for schema, texts in found:
        for text in texts:
            if text is not None:
                check_text(text, schema)


def check_text(text, schema):
    def distinct_names(pairs):
        names = [name for name, _ in pairs]
        holds(len(set(names)) == len(names), f"The guide of {schema} accepts {text!r}, where an object has a name twice")
        return dict(pairs)

    try:
        value = json.loads(text.decode(), object_pairs_hook=distinct_names)
    except ValueError as problem:
        holds(False, f"The guide of {schema} accepts {text!r}, which json.loads cannot read: {problem}")
    holds(fits(value, schema), f"The guide of {schema} accepts {text!r}, but the schema does not hold for it")


@exercise("JsonGuide", weight=3)
def test_commas_are_between_the_properties(learner):
    """Properties come in the order of the schema, each at most once; those that are not required may be missing, in all combinations. ", " is only between two of them: not before the first, not behind the last. No other names come."""
    checks = []
    for required in ([], ["a"], ["c"], ["b", "a"], ["a", "b", "c"]):
        schema = {"type": "object", "properties": {name: {"type": "null"} for name in ("a", "b", "c")}, "required": required}
        sequences = [names for count in range(4) for names in product("abc", repeat=count) if count < 3 or len(set(names)) == 3]
        texts = ["{" + ", ".join(f'"{name}": null' for name in names) + "}" for names in sequences]
        right = [text for text, names in zip(texts, sequences) if list(names) == sorted(set(names)) and set(required) <= set(names)]
        full = '"a": null, "b": null, "c": null'
        wrong = [f"{{, {full}}}", f"{{{full}, }}", f"{{{full},}}", f"{{{full}, \"d\": null}}", f"{{{full.replace(', ', ',')}}}", f"{{ {full} }}", f"{{{full.replace(': ', ':')}}}", f"{{{full}", '{"a": null "c": null}', '{"a": nul}', "[]", "null", ""]
        checks.append(takes(learner, schema, right, [text for text in texts + wrong if text not in right]))
    checks.append(takes(learner, {"type": "object"}, ["{}"], ["{ }", "{, }", '{"a": null}', "[]"]))
    checks.append(takes(learner, {"type": "object", "properties": {"ab": {"type": "integer"}, "a": {"type": "boolean"}}, "required": ["a"]}, ['{"a": true}', '{"ab": 7, "a": false}'], ['{"ab": 7}', '{"a": 7}', '{"ab": true, "a": true}', '{"a": true, "ab": 7}', "{}"]))
    for check in checks:
        check()


@exercise("JsonGuide", weight=2)
def test_arrays_have_any_number_of_items(learner):
    """An array has no item, one or several, with ", " between two of them and nothing before the first or behind the last; so it is for arrays of arrays and of objects."""
    numbers = takes(learner, {"type": "array", "items": {"type": "integer"}}, ["[]", "[1]", "[1, 2]", "[-1, 20, 300, 4]"], ["[1, ]", "[, 1]", "[1,2]", "[1 2]", "[1, , 2]", "[ ]", "[1", "[true]", "[[1]]", "1", "[1]]"])
    nested = takes(learner, {"type": "array", "items": {"type": "array", "items": {"type": "null"}}}, ["[]", "[[]]", "[[], [null]]", "[[null, null], [], [null]]"], ["[null]", "[[[]]]", "[[]", "[[null]]]", "[[], ]", "[][]"])
    objects = takes(learner, {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "array", "items": {"enum": ["y"]}}}}}, ["[{}, {}]", '[{"x": []}, {"x": ["y", "y"]}, {}]'], ['[{"x": []]', '[{"x": "y"}]', '[{"x": [{}]}]', "{}"])
    for check in (numbers, nested, objects):
        check()


@exercise("JsonGuide", weight=2)
def test_texts_and_numbers_are_json(learner):
    """A text has escapes for ", \\ and the first 32 characters, and no others than the docstring allows. A number has no leading zero and no empty part; a whole number has no point. Only true and false are booleans."""
    checks = [
        takes(learner, {"type": "string"}, ['""', '"é€😀"', r'"a\"b"', r'"\\"', r'"\n\/\t"', '"{[,"', '"\x7f"'], ['"', '"a', '"a"b"', r'"\"', r'"\x"', r'"\u0041"', '"\n"', '"\x1f"', "a", "'a'", "null"]),
        takes(learner, {"type": "number"}, ["0", "-0", "7", "-12.5", "0.05", "100", "1" * 15, "0." + "1" * 15], ["", "-", "01", "1.", ".5", "+1", "1e5", "1.5.2", "--1", "00", "-01", "1" * 16, "0." + "1" * 16, "NaN", "true", '"1"']),
        takes(learner, {"type": "integer"}, ["0", "-3", "42", "9" * 15], ["1.0", "1.", "-", "007", "9" * 16, "1e1", "null"]),
        takes(learner, {"type": "boolean"}, ["true", "false"], ["True", "tru", "truefalse", "1", "null", '"true"']),
        takes(learner, {"type": "null"}, ["null"], ["None", "nul", "nulll", "false", "0"]),
    ]
    for check in checks:
        check()


@exercise("JsonGuide", weight=2)
def test_enums_have_exactly_their_values(learner):
    """The values may begin alike: behind "r the text may end its quotes or go on to "red. 1, true, 1.5, null and the text "1" are different values. Names and values with quotes, line ends or é are written as by json.dumps with ensure_ascii=False."""
    checks = [
        takes(learner, {"enum": ["red", "r", "rose"]}, ['"r"', '"red"', '"rose"'], ['"re"', '"ro"', "r", '"reds"', '""']),
        takes(learner, {"enum": [1, 12, True, None, 1.5, "1"]}, ["1", "12", "true", "null", "1.5", '"1"'], ["1.0", "2", "false", "True", "121", "1."]),
        takes(learner, {"enum": [0]}, ["0"], ["false", "null", '""', "-0"]),
        takes(learner, {"enum": [False, -2, 1e30]}, ["false", "-2", "1e+30"], ["0", "true", "1e30", "2"]),
        takes(learner, {"type": "string", "enum": ["", 'a"b', "c\\d", "\n\x01", "é😀"]}, [written(value) for value in ("", 'a"b', "c\\d", "\n\x01", "é😀")], ['"é"', r'"\u00e9\ud83d\ude00"', '"a"b"', r'"c\d"', '"\n\x01"']),
        takes(learner, {"type": "object", "properties": {'q"': {"type": "null"}, "é\\": {"enum": [3]}}, "required": ["é\\"]}, [r'{"q\"": null, "é\\": 3}', r'{"é\\": 3}'], ['{"q"": null}', '{"é\\": 3}', r'{"\u00e9\\": 3}', "{}"]),
    ]
    for check in checks:
        check()


def sorted_bytes(guide, texts):
    """What the guide allows behind each text, in a fixed order, and of which types it is."""
    found = [guide.allowed(text) for text in texts]
    return [sorted(allowed) for allowed in found], sorted({type(each).__name__ for each in found} | {type(byte).__name__ for each in found for byte in each})


@exercise("JsonGuide", weight=3)
def test_allowed_says_exactly_what_may_come(learner):
    """The result is a set of single bytes, with b"" if the text may end here. Inside é, only its second byte comes. Behind a complete text only b"" is left, and behind a wrong one nothing at all."""
    cases = [
        ({"enum": ["é", "è", "r", "red"]}, {b"": [b'"'], b'"': [b"r", b"\xc3"], b'"\xc3': [b"\xa8", b"\xa9"], b'"r': [b'"', b"e"], b'"r"': [b""], b'"x': [], b'"r" ': [], b"\xc3\xa9": [], b'"\xc3"': []}),
        ({"type": "integer"}, {b"": [b"-", *(b"%d" % i for i in range(10))], b"-": [b"%d" % i for i in range(10)], b"0": [b""], b"4": [b"", *(b"%d" % i for i in range(10))], b"4" * 15: [b""], b"-0": [b""], b"4x": [], b"01": []}),
        ({"type": "array", "items": {"type": "boolean"}}, {b"": [b"["], b"[": [b"]", b"f", b"t"], b"[t": [b"r"], b"[true": [b",", b"]"], b"[true,": [b" "], b"[true, ": [b"f", b"t"], b"[true]": [b""], b"[true]]": [], b"[,": [], b"t": []}),
        ({"type": "string"}, {b"": [b'"'], b'"\\': sorted(bytes([byte]) for byte in b'"\\/bfnrt'), b'"\xc3': [bytes([byte]) for byte in range(0x80, 0xC0)], b'"\xf4': [bytes([byte]) for byte in range(0x80, 0x90)], b'"a"': [b""], b'"\x80': [],
                             b'"ab': sorted(bytes([byte]) for byte in [*range(0x20, 0x80), *range(0xC2, 0xF5)])}),
        ({"type": "object", "properties": {"a": {"enum": [1]}, "b": {"enum": [1]}}}, {b"{": [b'"', b"}"], b'{"': [b"a", b"b"], b'{"a": 1': [b",", b"}"], b'{"a": 1, "': [b"b"], b'{"b": 1': [b"}"], b'{"b": 1,': [], b'{"a": 1}': [b""], b"{}": [b""], b"{} ": []}),
    ]  # fmt: skip
    helper, found = learner.bring(sorted_bytes), []
    for schema, expected in cases:
        found.append(helper(learner.JsonGuide(schema), list(expected)))
    for (schema, expected), (got, kinds) in zip(cases, found):
        for (text, right), allowed in zip(expected.items(), got):
            same(allowed, right, f"what the guide of {schema} allows behind {text!r}, sorted")
        same(kinds, ["bytes", "set"], f"the types of what the guide of {schema} allows")


def by_automaton(guide, texts):
    """For each text, what its automaton allows next and what `allowed` does, both sorted; the last beginning first."""
    start, accepting, step = guide.automaton
    found = []
    for text in reversed(texts):
        state = start
        for byte in text:
            if state is not None:
                (state,) = map(step, (state,), (byte,))
        after = [] if state is None else list(map(step, [state] * 256, range(256)))
        next_bytes = [bytes([byte]) for byte, reached in enumerate(after) if reached is not None]
        found.append([([b""] if state in accepting else []) + next_bytes, sorted(guide.allowed(text))])
    return found[::-1]


@exercise("JsonGuide", weight=2)
@few
@given(seed=seeds)
@example(seed=1)
def test_the_automaton_accepts_the_same_texts(learner, seed):
    """The attribute automaton is (start, accepting, step): behind every beginning it can make the steps that `allowed` allows, and it may end where `allowed` has b""."""
    draw, found = random.Random(seed), []
    for _ in range(3):
        schema = drawn_schema(draw, 2)
        text = written(drawn_value(draw, schema)).encode()[:40]
        beginnings = [text[:i] for i in range(0, len(text) + 1, 1 + len(text) // 12)] + [text, text + b"x", b"?" + text]
        guide = learner.JsonGuide(schema)
        found.append((schema, beginnings, learner.bring(by_automaton)(guide, beginnings)))
    for schema, beginnings, results in found:
        for text, (automaton, allowed) in zip(beginnings, results):
            same(automaton, allowed, f"what the automaton of {schema} allows behind {text!r}, compared with the result of allowed,")


def of_shared_and_endless_schemas(JsonGuide, kind):
    """A guide of a schema that is too large: endless, of shared parts, or of too many values."""
    if kind == "a schema that has itself as items":
        schema = {"type": "array"}
        schema["items"] = schema
    elif kind == "a schema of 25 levels with two equal properties each":
        schema = {"type": "boolean"}
        for _ in range(25):
            schema = {"type": "object", "properties": {"a": schema, "b": schema}}
    else:
        schema = {"type": "object", "properties": {f"p{i}": {"type": "number"} for i in range(60)}, "required": [f"p{i}" for i in range(60)]}
    return JsonGuide(schema).allowed(b"")


@exercise("JsonGuide", weight=2)
def test_unsupported_schemas_have_a_place(learner):
    """A schema that a guide does not support raises a ValueError that names the place, such as $.a[].b, however deep it is. A schema that is endless or needs more than MAX_STATES states raises one, too."""
    inner = {"type": "object", "properties": {"b": {"type": "string"}}}
    fine = takes(learner, {"type": "object", "properties": {"a": {"type": "array", "items": inner}}, "required": ["a"], "title": "form", "additionalProperties": False}, ['{"a": [{"b": ""}]}', '{"a": []}'], ["{}"])
    wrong = [{"type": "string", "minLength": 2}, {"$ref": "#"}, {"type": "text"}, {"enum": [[1]]}, {"type": "array"}, {"type": "object", "properties": {}, "required": ["x"]}, {"type": "integer", "enum": [1, "a"]}]
    for schema in wrong:
        around = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": schema}}}}}
        for whole, place in ((schema, "$"), (around, "$.a[].b")):
            refuses(lambda whole=whole: learner.JsonGuide(whole).allowed(b""), naming={"place": place}, because=f"a guide does not support {schema} at {place}")
    for kind in ("a schema that has itself as items", "a schema of 25 levels with two equal properties each", "a schema that needs more than MAX_STATES states"):
        helper = learner.bring(of_shared_and_endless_schemas)
        refuses(lambda kind=kind, helper=helper: helper(learner.JsonGuide, kind), because=f"{kind} is too large")
    fine()


def nested_array(depth):
    schema = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@exercise("JsonGuide")
def test_schemas_may_be_deep(learner):
    """A guide closes what is open in the right order: the innermost part first, however deep it is."""
    arrays = takes(learner, nested_array(5), ["[" * 5 + "]" * 5, "[" * 5 + "null, null" + "]" * 5], ["[" * 4 + "null" + "]" * 4, "[" * 6 + "]" * 6, "[" * 5 + "]" * 4])
    schema = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "null"}}}}}}}}
    mixed = takes(learner, schema, ['[{"a": [{"b": [null]}, {}]}, {}]', "[]"], ['[{"a": [{"b": [null}]}]]', '[{"a": [{"b": [null]]}}]', '[{"a": [{"b": [null]}]}'])
    arrays()
    mixed()
