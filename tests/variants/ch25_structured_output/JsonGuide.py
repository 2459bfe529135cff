# variant: no tree: stacks of what is still to be written, by a grammar of its own
class JsonGuide:
    def __init__(self, schema):
        check_schema(schema)
        self.schemas = []
        root = self.register(schema)
        self.automaton = number_states(self.opened({(root,)}), self.moves, lambda stacks: () in stacks)

    def register(self, schema):
        """The number of a schema, whose parts are registered, too."""
        number = len(self.schemas)
        self.schemas.append(None)
        if "enum" in schema:
            entry = ("enum", [dumps(value).encode() for value in schema["enum"]])
        elif schema["type"] == "array":
            entry = ("array", self.register(schema["items"]))
        elif schema["type"] == "object":
            required = set(schema.get("required", ()))
            members = [(f"{dumps(name)}: ".encode(), self.register(inner), name in required) for name, inner in schema.get("properties", {}).items()]
            entry = ("object", members)
        else:
            entry = (schema["type"], None)
        self.schemas[number] = entry
        return number

    def expand(self, top, below):
        """The stacks that stand for a stack whose top is not a text; a number is a schema, bytes are a text."""
        if isinstance(top, int):
            kind, more = self.schemas[top]
            if kind == "enum":
                return [(text, *below) for text in more]
            if kind == "array":
                return [(b"[]", *below), (b"[", more, ("items", more), *below)]
            if kind == "object":
                return [(b"{", ("members", top, 0, True), *below)]
            if kind == "string":
                return [(b'"', ("characters",), *below)]
            if kind in ("boolean", "null"):
                return [(text, *below) for text in ((b"true", b"false") if kind == "boolean" else (b"null",))]
            return [(sign, ("digits", 0, kind == "number"), *below) for sign in (b"", b"-")]
        if top[0] == "items":
            return [(b"]", *below), (b", ", top[1], top, *below)]
        if top[0] == "members":
            _, number, i, is_first = top
            members = self.schemas[number][1]
            if i == len(members):
                return [(b"}", *below)]
            name, inner, needed = members[i]
            written = [(b"" if is_first else b", ", name, inner, ("members", number, i + 1, False), *below)]
            return written if needed else [*written, (("members", number, i + 1, is_first), *below)]
        if top[0] == "digits":
            _, count, may_have_point = top
            tail = ("point",) if may_have_point else b""
            if count == 0:
                return [(b"0", tail, *below), (("one", frozenset(b"123456789")), ("digits", 1, may_have_point), *below)]
            longer = [(("one", frozenset(b"0123456789")), ("digits", count + 1, may_have_point), *below)] if count < 15 else []
            return [(tail, *below), *longer]
        if top[0] == "point":
            return [below, (b".", ("one", frozenset(b"0123456789")), ("fraction", 1), *below)]
        if top[0] == "fraction":
            return [below] + ([(("one", frozenset(b"0123456789")), ("fraction", top[1] + 1), *below)] if top[1] < 15 else [])
        if top[0] == "characters":
            any_of = lambda first, last: ("one", frozenset(range(first, last + 1)))
            rest = any_of(0x80, 0xBF)
            plain = ("one", frozenset(range(0x20, 0x80)) - frozenset(b'"\\'))
            ways = [(plain,), (b"\\", ("one", frozenset(b'"\\/bfnrt'))), (any_of(0xC2, 0xDF), rest), (b"\xe0", any_of(0xA0, 0xBF), rest), (any_of(0xE1, 0xEC), rest, rest)]
            ways += [(b"\xed", any_of(0x80, 0x9F), rest), (any_of(0xEE, 0xEF), rest, rest), (b"\xf0", any_of(0x90, 0xBF), rest, rest)]
            ways += [(any_of(0xF1, 0xF3), rest, rest, rest), (b"\xf4", any_of(0x80, 0x8F), rest, rest)]
            return [(b'"', *below), *((*way, top, *below) for way in ways)]
        raise AssertionError(top)

    def opened(self, stacks):
        seen, todo, ready = set(), list(stacks), set()
        while todo:
            stack = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            if not stack:
                ready.add(stack)
            elif isinstance(stack[0], bytes):
                if stack[0]:
                    ready.add(stack)
                else:
                    todo.append(stack[1:])
            elif isinstance(stack[0], tuple) and stack[0][0] == "one":
                ready.add(stack)
            else:
                todo += self.expand(stack[0], stack[1:])
        return frozenset(ready)

    def moves(self, stacks):
        targets = {}
        for stack in stacks:
            if stack:
                top, below = stack[0], stack[1:]
                if isinstance(top, bytes):
                    targets.setdefault(top[0], set()).add((top[1:], *below))
                else:
                    for byte in top[1]:
                        targets.setdefault(byte, set()).add(below)
        return {byte: self.opened(after) for byte, after in targets.items()}

    def allowed(self, text_so_far):
        state, accepting, step = self.automaton
        for byte in text_so_far:
            state = step(state, byte)
            if state is None:
                return set()
        following = {bytes([byte]) for byte in range(256) if step(state, byte) is not None}
        if state in accepting:
            following.add(b"")
        return following


# variant: a tree from recursive functions; what may follow a property is remembered for each place
class JsonGuide:
    def __init__(self, schema):
        check_schema(schema)
        tree = self.value(schema)
        self.automaton = build_automaton(tree)
        self.rows = {}

    def value(self, schema):
        enum = schema.get("enum")
        if enum is not None:
            return Choice(tuple(map(literal, map(dumps, enum))))
        match schema["type"]:
            case "array":
                item = self.value(schema["items"])
                several = Concat((literal("["), item, Repeat(Concat((literal(", "), item)), 0, None), literal("]")))
                return Choice((literal("[]"), several))
            case "object":
                return Concat((literal("{"), self.members(schema)))
            case kind:
                return parse_pattern(JSON_PATTERNS[kind])

    def members(self, schema):
        """Everything behind the opening brace."""
        properties = list(schema.get("properties", {}).items())
        values = [self.value(inner) for _, inner in properties]
        required = schema.get("required", [])

        @cache
        def rest(i, comma):
            if i == len(properties):
                return literal("}")
            name = properties[i][0]
            here = Concat((literal(comma + dumps(name) + ": "), values[i], rest(i + 1, ", ")))
            if name in required:
                return here
            return Choice((rest(i + 1, comma), here))

        return rest(0, "")

    def row(self, state):
        if state not in self.rows:
            _, accepting, step = self.automaton
            row = {bytes([byte]): step(state, byte) for byte in range(256)}
            row = {byte: after for byte, after in row.items() if after is not None}
            if state in accepting:
                row[b""] = state
            self.rows[state] = row
        return self.rows[state]

    def allowed(self, text_so_far):
        state = self.automaton[0]
        for i in range(len(text_so_far)):
            state = self.row(state).get(text_so_far[i : i + 1])
            if state is None:
                return set()
        return set(self.row(state))


# variant: an object is a choice of its first property, and each property is followed by a choice of the next one
class JsonGuide:
    def __init__(self, schema):
        check_schema(schema)
        self.automaton = build_automaton(self._tree(schema))

    def _tree(self, schema):
        if "enum" in schema:
            return Choice(tuple(literal(dumps(value)) for value in schema["enum"]))
        if schema["type"] == "array":
            item = self._tree(schema["items"])
            some = Concat((Repeat(Concat((item, literal(", "))), 0, None), item))
            return Concat((literal("["), Choice((some, Concat(()))), literal("]")))
        if schema["type"] != "object":
            return parse_pattern(JSON_PATTERNS[schema["type"]])
        names = list(schema.get("properties", {}))
        needed = [name in schema.get("required", []) for name in names]
        own = [Concat((literal(dumps(name) + ": "), self._tree(schema["properties"][name]))) for name in names]

        def next_after(i):
            """The properties that may be the next behind number i, and whether the object may end."""
            possible = []
            for j in range(i + 1, len(names)):
                possible.append(j)
                if needed[j]:
                    return possible, False
            return possible, True

        written = {}
        for i in range(len(names) - 1, -1, -1):
            possible, may_end = next_after(i)
            ways = [Concat((literal(", "), written[j])) for j in possible] + ([literal("}")] if may_end else [])
            written[i] = Concat((own[i], Choice(tuple(ways))))
        possible, may_end = next_after(-1)
        ways = [written[j] for j in possible] + ([literal("}")] if may_end else [])
        return Concat((literal("{"), Choice(tuple(ways))))

    def allowed(self, text_so_far):
        start, accepting, step = self.automaton
        states = [start]
        for byte in text_so_far:
            if states[-1] is None:
                break
            states.append(step(states[-1], byte))
        last = states[-1]
        if last is None:
            return set()
        ends = {b""} if last in accepting else set()
        return ends.union(bytes((byte,)) for byte in range(256) if step(last, byte) is not None)


# variant: allowed follows all stacks of the tree, without the automaton
class JsonGuide:
    def __init__(self, schema):
        check_schema(schema)
        self.schema = schema
        self.tree = self.tree_of(schema)
        self.automaton = build_automaton(self.tree)

    def tree_of(self, schema):
        if "enum" in schema:
            texts = [dumps(value) for value in schema["enum"]]
            return Choice(tuple(literal(text) for text in texts))
        if schema["type"] == "array":
            item = self.tree_of(schema["items"])
            items = Choice((Concat(()), Concat((item, Repeat(Concat((literal(", "), item)), 0, None)))))
            return Concat((literal("["), items, literal("]")))
        if schema["type"] == "object":
            alone, behind = [], []  # the trees of the rest, with nothing before and with something before
            for name, inner in list(schema.get("properties", {}).items())[::-1]:
                value = Concat((literal(f"{dumps(name)}: "), self.tree_of(inner), behind[-1] if behind else Concat(())))
                options = [value], [Concat((literal(", "), value))]
                if name not in schema.get("required", []):
                    options[0].append(alone[-1] if alone else Concat(()))
                    options[1].append(behind[-1] if behind else Concat(()))
                alone.append(Choice(tuple(options[0])))
                behind.append(Choice(tuple(options[1])))
            return Concat((literal("{"), alone[-1] if alone else Concat(()), literal("}")))
        return parse_pattern(JSON_PATTERNS[schema["type"]])

    def allowed(self, text_so_far):
        ready = self.open_up({(self.tree,)})
        for byte in text_so_far:
            ready = self.open_up({stack[1:] for stack in ready if stack and byte in stack[0].values})
        found = {bytes([byte]) for stack in ready if stack for byte in stack[0].values}
        return found | {b""} if () in ready else found

    def open_up(self, stacks):
        seen, todo = set(), list(stacks)
        while todo:
            stack = todo.pop()
            if stack not in seen:
                seen.add(stack)
                if stack and isinstance(stack[0], Concat):
                    todo.append(stack[0].parts + stack[1:])
                elif stack and isinstance(stack[0], Choice):
                    todo.extend((part, *stack[1:]) for part in stack[0].parts)
                elif stack and isinstance(stack[0], Repeat):
                    if stack[0].most != 0:
                        todo.append((stack[0].part, stack[0].rest, *stack[1:]))
                    if stack[0].least == 0:
                        todo.append(stack[1:])
        return {stack for stack in seen if not stack or isinstance(stack[0], Byte)}
