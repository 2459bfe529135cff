# variant: closures, as in micrograd, with the gradients of one call apart
class Scalar:
    def __init__(self, value, parts=(), name=""):
        self.value, self.grad, self._parts, self._pass_on, self.name = float(value), 0, parts, lambda g, give: None, name

    def _binary(self, other, value, left, right):
        out = Scalar(value, (self, other))

        def pass_on(g, give):
            give(self, g * left)
            give(other, g * right)

        out._pass_on = pass_on
        return out

    def __add__(self, other):
        other = other if isinstance(other, Scalar) else Scalar(other)
        return self._binary(other, self.value + other.value, 1, 1)

    def __mul__(self, other):
        other = other if isinstance(other, Scalar) else Scalar(other)
        return self._binary(other, self.value * other.value, other.value, self.value)

    def _unary(self, value, slope):
        out = Scalar(value, (self,))
        out._pass_on = lambda g, give: give(self, g * slope)
        return out

    def __pow__(self, n):
        return self._unary(self.value**n, n * self.value ** (n - 1))

    def exp(self):
        return self._unary(math.exp(self.value), math.exp(self.value))

    def log(self):
        return self._unary(math.log(self.value), 1 / self.value)

    def __neg__(self):
        return self * -1

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return (-self) + other

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, other):
        return other * self**-1

    def _order(self):
        order, seen, stack = [], set(), [(self, iter(self._parts))]
        seen.add(self)
        while stack:
            node, parts = stack[-1]
            for part in parts:
                if part not in seen:
                    seen.add(part)
                    stack.append((part, iter(part._parts)))
                    break
            else:
                order.append(node)
                stack.pop()
        return order

    def backward(self):
        new = {self: 1.0}

        def give(node, gradient):
            new[node] = new.get(node, 0.0) + gradient

        for node in reversed(self._order()):
            node.grad += new[node]
            node._pass_on(new[node], give)

    def zero_grad(self):
        for node in self._order():
            node.grad = 0


# variant: numbered in the order of creation, taken from a heap
class Scalar:
    created = 0

    def __init__(self, value, made_of=()):
        Scalar.created += 1
        self.number, self.value, self.grad, self.made_of = Scalar.created, float(value), 0.0, made_of

    def wrap(x):
        return x if isinstance(x, Scalar) else Scalar(x)

    def __add__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value + other.value, [(self, 1.0), (other, 1.0)])

    __radd__ = __add__

    def __sub__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value - other.value, [(self, 1.0), (other, -1.0)])

    def __rsub__(self, other):
        return Scalar.wrap(other) - self

    def __mul__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value * other.value, [(self, other.value), (other, self.value)])

    __rmul__ = __mul__

    def __truediv__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value / other.value, [(self, 1 / other.value), (other, -self.value / other.value**2)])

    def __rtruediv__(self, other):
        return Scalar.wrap(other) / self

    def __neg__(self):
        return Scalar(-self.value, [(self, -1.0)])

    def __pow__(self, n):
        return Scalar(self.value**n, [(self, n * self.value ** (n - 1))])

    def exp(self):
        e = math.exp(self.value)
        return Scalar(e, [(self, e)])

    def log(self):
        return Scalar(math.log(self.value), [(self, 1 / self.value)])

    def all_nodes(self):
        import heapq

        heap, known = [(-self.number, self)], {self.number}
        while heap:
            _, node = heapq.heappop(heap)
            yield node
            for part, _ in node.made_of:
                if part.number not in known:
                    known.add(part.number)
                    heapq.heappush(heap, (-part.number, part))

    def backward(self):
        slopes = {self.number: 1.0}
        for node in self.all_nodes():
            g = slopes[node.number]
            node.grad += g
            for part, slope in node.made_of:
                slopes[part.number] = slopes.get(part.number, 0.0) + g * slope

    def zero_grad(self):
        for node in list(self.all_nodes()):
            node.grad = 0.0


# variant: a tape of all operations, read from the end; numbers are no nodes
class Scalar:
    def __init__(self, value, tape=None):
        self.value, self.grad, self.slopes = value + 0.0, 0, tape or {}

    def __add__(self, other):
        if not isinstance(other, Scalar):
            return Scalar(self.value + other, {self: 1})
        return Scalar(self.value + other.value, {self: 2} if other is self else {self: 1, other: 1})

    def __mul__(self, other):
        if not isinstance(other, Scalar):
            return Scalar(self.value * other, {self: other})
        return Scalar(self.value * other.value, {self: 2 * self.value} if other is self else {self: other.value, other: self.value})

    def __pow__(self, n):
        return Scalar(self.value**n, {self: n * self.value ** (n - 1)})

    def exp(self):
        return Scalar(math.e**self.value, {self: math.e**self.value})

    def log(self):
        return Scalar(math.log(self.value), {self: 1 / self.value})

    def __neg__(self):
        return -1 * self

    def __sub__(self, other):
        return self + -other

    def __truediv__(self, other):
        return self * other**-1 if isinstance(other, Scalar) else self * (1 / other)

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other

    def __rsub__(self, other):
        return -self + other

    def __rtruediv__(self, other):
        return other * self**-1

    def waiting(self):
        """How many users each node below has."""
        users, look = {self: 0}, [self]
        while look:
            for part in look.pop().slopes:
                if part not in users:
                    users[part] = 0
                    look.append(part)
                users[part] += 1
        return users

    def backward(self):
        users, ready, arrived = self.waiting(), [self], {self: 1.0}
        while ready:
            node = ready.pop()
            node.grad = node.grad + arrived[node]
            for part, slope in node.slopes.items():
                arrived[part] = arrived.get(part, 0) + arrived[node] * slope
                users[part] -= 1
                if users[part] == 0:
                    ready.append(part)

    def zero_grad(self):
        for node in self.waiting():
            node.grad = 0
