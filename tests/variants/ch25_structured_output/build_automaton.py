# variant: numbered places with edges, many of which read no byte, and sets of places
def build_automaton(pattern):
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    silent, reading = [], []  # for each place: where it leads without a byte; and pairs of a set of bytes and a place

    def place():
        silent.append([])
        reading.append([])
        return len(silent) - 1

    def connect(node, begin):
        """Add the edges of a node behind the place `begin`, and return the place where it ends."""
        if isinstance(node, Byte):
            end = place()
            reading[begin].append((node.values, end))
            return end
        if isinstance(node, Concat):
            for part in node.parts:
                begin = connect(part, begin)
            return begin
        end = place()
        if isinstance(node, Choice):
            for part in node.parts:
                silent[connect(part, begin)].append(end)
            return end
        for _ in range(node.least):
            begin = connect(node.part, begin)
        if node.most is None:
            round_trip = place()
            silent[begin].append(round_trip)
            silent[connect(node.part, round_trip)].append(round_trip)
            begin = round_trip
        else:
            for _ in range(node.most - node.least):
                silent[begin].append(end)
                begin = connect(node.part, begin)
        silent[begin].append(end)
        return end

    start = place()
    end = connect(tree, start)

    def closure(places):
        found = set()
        todo = list(places)
        while todo:
            here = todo.pop()
            if here not in found:
                found.add(here)
                todo.extend(silent[here])
        return frozenset(here for here in found if reading[here] or here == end)

    closures = {}

    def moves(places):
        edges = [edge for here in places for edge in reading[here]]
        row = {}
        for byte in range(256):
            after = frozenset(target for values, target in edges if byte in values)
            if after:
                if after not in closures:
                    closures[after] = closure(after)
                row[byte] = closures[after]
        return row

    return number_states(closure([start]), moves, lambda places: end in places)


# variant: derivatives: what remains of a pattern after one byte is again a pattern
def build_automaton(pattern):
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    EMPTY = ("empty",)

    def sequence(first, second):
        if first == EMPTY:
            return second
        if second == EMPTY:
            return first
        if first[0] == "sequence":
            return ("sequence", first[1], sequence(first[2], second))
        return ("sequence", first, second)

    def alternatives(patterns):
        found = set()
        for each in patterns:
            found |= each[1] if each[0] == "choice" else {each}
        return next(iter(found)) if len(found) == 1 else ("choice", frozenset(found))

    def repetition(part, least, most):
        return EMPTY if most == 0 else ("repeat", part, least, most)

    def converted(node):
        if isinstance(node, Byte):
            return ("byte", node.values)
        if isinstance(node, Repeat):
            return repetition(converted(node.part), node.least, node.most)
        parts = [converted(part) for part in node.parts]
        if isinstance(node, Choice):
            return alternatives(parts)
        whole = EMPTY
        for part in reversed(parts):
            whole = sequence(part, whole)
        return whole

    @cache
    def may_be_empty(p):
        kind = p[0]
        if kind == "choice":
            return any(may_be_empty(each) for each in p[1])
        if kind == "sequence":
            return may_be_empty(p[1]) and may_be_empty(p[2])
        if kind == "repeat":
            return p[2] == 0 or may_be_empty(p[1])
        return kind == "empty"

    @cache
    def classes(p):
        """Sets of bytes; bytes that are in the same of them lead to the same pattern."""
        kind = p[0]
        if kind == "byte":
            return frozenset([p[1]])
        if kind == "choice":
            return frozenset().union(*(classes(each) for each in p[1]))
        if kind == "sequence":
            return classes(p[1]) | (classes(p[2]) if may_be_empty(p[1]) else frozenset())
        return classes(p[1]) if kind == "repeat" else frozenset()

    def after(p, byte):
        """What remains behind the byte; None if it cannot come."""
        kind = p[0]
        if kind == "byte":
            return EMPTY if byte in p[1] else None
        ways = []
        if kind == "choice":
            ways = [after(each, byte) for each in p[1]]
        elif kind == "sequence":
            rest = after(p[1], byte)
            ways = [None if rest is None else sequence(rest, p[2])]
            if may_be_empty(p[1]):
                ways.append(after(p[2], byte))
        elif kind == "repeat":
            rest = after(p[1], byte)
            fewer = repetition(p[1], max(p[2] - 1, 0), None if p[3] is None else p[3] - 1)
            ways = [None if rest is None else sequence(rest, fewer)]
        ways = [way for way in ways if way is not None]
        return alternatives(ways) if ways else None

    def moves(p):
        known, row = {}, {}
        for byte in range(256):
            key = tuple(byte in values for values in classes(p))
            if key not in known:
                known[key] = after(p, byte)
            if known[key] is not None:
                row[byte] = known[key]
        return row

    return number_states(converted(tree), moves, may_be_empty)


# variant: each Byte of the unrolled tree is a position; a state is the set of positions that may come next
def build_automaton(pattern):
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    values, follow = [], []
    END = 0

    def new_position(accepted):
        values.append(accepted)
        follow.append(set())
        return len(values) - 1

    def join(last, first):
        for position in last:
            follow[position] |= first

    def in_a_row(pieces):
        first, last, empty = set(), set(), True
        for begins, ends, may_be_empty in pieces:
            join(last, begins)
            first |= begins if empty else set()
            last = ends | (last if may_be_empty else set())
            empty = empty and may_be_empty
        return first, last, empty

    def visit(node):
        """The first positions, the last positions, and whether the node may match the empty text."""
        if isinstance(node, Byte):
            position = new_position(node.values)
            return {position}, {position}, False
        if isinstance(node, Concat):
            return in_a_row([visit(part) for part in node.parts])
        if isinstance(node, Choice):
            pieces = [visit(part) for part in node.parts]
            return set().union(*(p[0] for p in pieces)), set().union(*(p[1] for p in pieces)), any(p[2] for p in pieces)
        pieces = [visit(node.part) for _ in range(node.least)]
        if node.most is None:
            first, last, _ = visit(node.part)
            join(last, first)
            pieces.append((first, last, True))
        else:
            pieces += [(*visit(node.part)[:2], True) for _ in range(node.most - node.least)]
        return in_a_row(pieces)

    new_position(frozenset())  # the end
    first, last, empty = visit(tree)
    join(last, {END})
    start = frozenset(first | ({END} if empty else set()))
    numbers, rows, states = {start: 1}, {}, [start]
    for state in states:
        row = rows[numbers[state]] = {}
        by_byte = {}
        for position in state:
            for byte in values[position]:
                by_byte.setdefault(byte, set()).add(position)
        for byte, positions in by_byte.items():
            after = frozenset().union(*(follow[position] for position in positions))
            if after not in numbers:
                numbers[after] = len(numbers) + 1
                states.append(after)
                if len(numbers) > MAX_STATES:
                    raise ValueError(f"more than {MAX_STATES} states are needed")
            row[byte] = numbers[after]
    accepting = {number for state, number in numbers.items() if END in state}

    def step(state, byte):
        return rows[state].get(byte)

    return 1, accepting, step


# variant: stacks as linked pairs, opened by a recursive function, one byte after the other
def build_automaton(pattern):
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern

    def open_up(stack, seen):
        if stack in seen:
            return
        seen.add(stack)
        if stack is None or isinstance(stack[0], Byte):
            return
        top, below = stack
        match top:
            case Concat(parts=parts):
                for part in reversed(parts):
                    below = (part, below)
                open_up(below, seen)
            case Choice(parts=parts):
                for part in parts:
                    open_up((part, below), seen)
            case Repeat():
                if top.least == 0:
                    open_up(below, seen)
                if top.most is None or top.most > 0:
                    open_up((top.part, (top.rest, below)), seen)

    def opened(stacks):
        seen = set()
        for stack in stacks:
            open_up(stack, seen)
        return frozenset(stack for stack in seen if stack is None or isinstance(stack[0], Byte))

    start = opened([(tree, None)])
    numbers, todo, table = {start: 0}, [start], {}
    while todo:
        state = todo.pop()
        targets = {}
        for stack in state:
            for byte in stack[0].values if stack else ():
                targets.setdefault(byte, set()).add(stack[1])
        known = {}
        for byte, stacks in targets.items():
            key = frozenset(stacks)
            if key not in known:
                known[key] = opened(key)
            if known[key] not in numbers:
                numbers[known[key]] = len(numbers)
                todo.append(known[key])
            table[numbers[state], byte] = numbers[known[key]]
        if len(numbers) > MAX_STATES:
            raise ValueError(f"there are more than MAX_STATES = {MAX_STATES} states")
    return 0, {number for state, number in numbers.items() if None in state}, lambda state, byte: table.get((state, byte))
