# variant: torch's own helpers for vectors, new gradient tensors
import torch
from torch.nn.utils import parameters_to_vector


def average_gradients(model, group, bucket_bytes=1 << 20):
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        return
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in trained]
    vector = parameters_to_vector(grads)
    numbers = max(bucket_bytes // vector.element_size(), 1)
    means = torch.cat([group.all_reduce(b) / group.size for b in torch.split(vector, numbers)])
    start = 0
    for p in trained:
        p.grad = means[start : start + p.numel()].reshape(p.shape).clone()
        start += p.numel()


# variant: a bucket is filled number by number of gradients, and sent when it is full
import torch


def average_gradients(model, group, bucket_bytes=1 << 20):
    flat = []
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            elif not p.grad.is_contiguous():
                p.grad = p.grad.contiguous()
            flat.append(p.grad.view(-1))
    waiting, room = [], 0

    def send():
        if waiting:
            mean = group.all_reduce(torch.cat(waiting)).div_(group.size)
            for place in waiting:
                place.copy_(mean[: len(place)])
                mean = mean[len(place) :]
            waiting.clear()

    with torch.no_grad():
        for gradient in flat:
            capacity = max(1, bucket_bytes // gradient.element_size())
            while len(gradient):
                if not waiting:
                    room = capacity
                taken, gradient = gradient[:room], gradient[room:]
                waiting.append(taken)
                room -= len(taken)
                if room == 0:
                    send()
        send()


# variant: divided before it is summed, written into one buffer
import torch


@torch.no_grad()
def average_gradients(model, group, bucket_bytes=1 << 20):
    places, total = {}, 0
    for p in filter(lambda p: p.requires_grad, model.parameters()):
        places[p] = slice(total, total := total + p.numel())
    if not places:
        return
    buffer = torch.zeros(total, dtype=next(iter(places)).dtype)
    for p, place in places.items():
        if p.grad is not None:
            buffer[place] = p.grad.flatten() / group.size
    step = -(-max(bucket_bytes, 1) // buffer.element_size()) if bucket_bytes < buffer.element_size() else bucket_bytes // buffer.element_size()
    for start in range(0, total, step):
        buffer[start : start + step] = group.all_reduce(buffer[start : start + step])
    for p, place in places.items():
        mean = buffer[place].view(p.shape)
        if p.grad is None:
            p.grad = mean.clone()
        else:
            p.grad[...] = mean
