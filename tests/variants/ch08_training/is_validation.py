# variant: md5 as a hexadecimal number, in ten thousand classes
def is_validation(text, fraction=0.1):
    return int(hashlib.md5(text.encode()).hexdigest(), 16) % 10_000 < fraction * 10_000


# variant: a checksum
def is_validation(text, fraction=0.1):
    import zlib

    return zlib.crc32(text.encode("utf-8")) < fraction * 2**32


# variant: two bytes of blake2, little end first
def is_validation(text, fraction=0.1):
    first, second = hashlib.blake2b(bytes(text, "utf-8"), digest_size=2).digest()
    return (first + 256 * second) / 65536 < fraction


# variant: Python's generator, seeded with the text (which it hashes with sha512)
def is_validation(text, fraction=0.1):
    import random

    return random.Random(text).random() < fraction


# variant: FNV-1a by hand, remembered
def is_validation(text, fraction=0.1, known={}):
    if text not in known:
        number = 0xCBF29CE484222325
        for byte in text.encode("utf-8"):
            number = (number ^ byte) * 0x100000001B3 % 2**64
        known[text] = (number ^ number >> 32) % 1_000_003 / 1_000_003
    return known[text] < fraction


# variant: the first byte alone
def is_validation(text, fraction=0.1):
    return hashlib.sha1(text.encode("utf-8")).digest()[0] < fraction * 256
