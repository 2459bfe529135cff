# variant: torch's max and a stable sort
def top_contexts(features, ids, n, before, after):
    strongest, places = features.max(dim=1)
    places = (features == strongest[:, None]).int().argmax(dim=1)
    order = torch.sort(strongest, descending=True, stable=True).indices
    result = []
    for b in order.tolist():
        if strongest[b] > 0 and len(result) < n:
            t = int(places[b])
            left = min(before, t)
            result.append((strongest[b].item(), ids[b, t - left : t + 1 + after].tolist(), left))
    return result


# variant: triples sorted by activation and text
def top_contexts(features, ids, n, before, after):
    best = []
    for b in range(len(ids)):
        t = max(range(ids.shape[1]), key=lambda t: features[b, t].item())
        if features[b, t] > 0:
            best.append((-features[b, t].item(), b, t))
    best.sort()
    found = []
    for minus, b, t in best[:n]:
        tokens = [int(i) for i in ids[b]]
        found.append((-minus, tokens[:t][max(t - before, 0) :] + tokens[t : t + after + 1], len(tokens[:t][max(t - before, 0) :])))
    return found


# variant: a heap
import heapq


def top_contexts(features, ids, n, before, after):
    def context(b):
        row, tokens = features[b].tolist(), ids[b].tolist()
        t = row.index(max(row))
        first, last = max(0, t - before), min(len(row), t + after + 1)
        return [row[t], [tokens[i] for i in range(first, last)], t - first]

    active = [b for b in range(features.size(0)) if (features[b] > 0).any()]
    return heapq.nlargest(n, (context(b) for b in active), key=lambda c: c[0])
