# variant: a question for every position
def answer_labels(ids, spans, ignore_index=-100):
    def counts(place):
        return any(start <= place < stop for start, stop in spans)

    return [ids[place] if counts(place) else ignore_index for place in range(1, len(ids))]


# variant: labels of all ids first, and the first one dropped
def answer_labels(ids, spans, ignore_index=-100):
    labels = [ignore_index for _ in ids]
    for span in spans:
        labels[slice(*span)] = list(ids)[slice(*span)]
    return labels[1:]


# variant: a tensor and a mask
import torch


def answer_labels(ids, spans, ignore_index=-100):
    labels = torch.tensor(list(ids), dtype=torch.long)
    answer = torch.zeros(len(labels), dtype=torch.bool)
    for start, stop in spans:
        answer[start:stop] = True
    return labels.masked_fill(~answer, ignore_index)[1:].tolist()
