# variant: as OpenAI wrote it
def byte_names():
    bs = list(range(ord("!"), ord("~") + 1)) + list(range(ord("¡"), ord("¬") + 1)) + list(range(ord("®"), ord("ÿ") + 1))
    cs = bs[:]
    n = 0
    for b in range(2**8):
        if b not in bs:
            bs.append(b)
            cs.append(2**8 + n)
            n += 1
    return dict(zip(bs, map(chr, cs)))


# variant: one loop with a counter
def byte_names():
    names, next_free = {}, 0x100
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 255 and byte != 173:
            names[byte] = chr(byte)
        else:
            names[byte] = chr(next_free)
            next_free += 1
    return names


# variant: by Python's idea of printable
def byte_names():
    visible = {b: chr(b) for b in range(256) if chr(b).isprintable() and not chr(b).isspace()}
    hidden = iter(range(256, 512))
    return {b: visible[b] if b in visible else chr(next(hidden)) for b in range(256)}
