# variant: a list of hashes for each seed, sorted
def minhash(shingles, seeds):
    signature = []
    for seed in seeds:
        hashes = sorted(seeded_hash(shingle, seed) for shingle in shingles)
        signature.append(hashes[0] if hashes else 2**64)
    return signature


# variant: shingle by shingle, all seeds at once
def minhash(shingles, seeds):
    smallest = {seed: 1 << 64 for seed in seeds}
    for shingle in shingles:
        for seed in smallest:
            smallest[seed] = min(smallest[seed], seeded_hash(shingle, seed))
    return [smallest[seed] for seed in seeds]


# variant: with reduce
from functools import reduce


def minhash(shingles, seeds):
    return [reduce(min, (seeded_hash(shingle, seed) for shingle in shingles), 18446744073709551616) for seed in seeds]
