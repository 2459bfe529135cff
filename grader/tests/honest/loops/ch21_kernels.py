"""In explicit loops: a row is read, computed and written number by number, as far as the language allows it."""


def add_kernel(tl, x, y, out, n, BLOCK):
    first = tl.program_id(0) * BLOCK
    for k in range(BLOCK):
        place = first + k
        if place < n:
            a = tl.load(x + place)
            b = tl.load(y + place)
            tl.store(out + place, a + b)


def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    first = tl.program_id(0) * stride
    numbers = []
    for j in range(columns):
        numbers.append(tl.load(x + first + j).to(tl.float32))
    largest = numbers[0]
    for number in numbers:
        if number > largest:
            largest = number
    exponentials = []
    total = 0.0
    for number in numbers:
        e = tl.exp(number - largest)
        exponentials.append(e)
        total = total + e
    for j in range(columns):
        tl.store(out + first + j, exponentials[j] / total)


def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    first = tl.program_id(0) * columns
    numbers = []
    total = 0.0
    for j in range(columns):
        number = tl.load(x + first + j).to(tl.float32)
        numbers.append(number)
        total = total + number * number
    mean = total / columns
    root = tl.sqrt(mean + eps)
    for j in range(columns):
        w = tl.load(weight + j).to(tl.float32)
        tl.store(out + first + j, numbers[j] / root * w)


def long_softmax_kernel(tl, x, out, columns, BLOCK):
    first = tl.program_id(0) * columns
    largest = -float("inf")
    total = 0.0
    for j in range(columns):
        number = tl.load(x + first + j).to(tl.float32)
        if number == -float("inf"):
            continue
        if number > largest:
            total = total * tl.exp(largest - number) + 1.0
            largest = number
        else:
            total = total + tl.exp(number - largest)
    for j in range(columns):
        number = tl.load(x + first + j).to(tl.float32)
        tl.store(out + first + j, tl.exp(number - largest) / total)


def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns, BLOCK):
    row = tl.program_id(0)
    target = tl.load(targets + row)
    if target == -100:
        tl.store(loss + row, 0.0)
        for j in range(columns):
            tl.store(gradient + row * columns + j, 0.0)
        return
    numbers = []
    largest = -float("inf")
    for j in range(columns):
        number = tl.load(logits + row * columns + j).to(tl.float32)
        numbers.append(number)
        largest = max(largest, number)
    exponentials = []
    total = 0.0
    for number in numbers:
        exponentials.append(tl.exp(number - largest))
        total = total + exponentials[-1]
    for j in range(columns):
        value = exponentials[j] / total
        if j == target:
            value = value - 1.0
            tl.store(loss + row, largest - numbers[j] + tl.log(total))
        tl.store(gradient + row * columns + j, value)
