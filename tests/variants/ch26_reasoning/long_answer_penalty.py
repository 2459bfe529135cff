# variant: three cases
import torch


def long_answer_penalty(lengths, soft, hard):
    if not soft < hard:
        raise ValueError(f"soft={soft}, hard={hard}")
    line = -(lengths.float() - soft) / (hard - soft)
    penalty = torch.where(lengths <= soft, torch.zeros_like(line), line)
    return torch.where(lengths >= hard, -torch.ones_like(line), penalty)


# variant: the length is cut off first
def long_answer_penalty(lengths, soft, hard):
    assert soft < hard, f"soft = {soft} is not below hard = {hard}"
    beyond = lengths.clamp(soft, hard) - soft
    return beyond.float() / -(hard - soft)


# variant: answer by answer
import torch


def long_answer_penalty(lengths, soft, hard):
    if soft >= hard:
        raise ValueError(f"the limits {soft} and {hard} leave no room")
    penalties = []
    for length in lengths.tolist():
        penalties.append(-min(1.0, max(0.0, (length - soft) / (hard - soft))))
    return torch.tensor(penalties, dtype=torch.float32, device=lengths.device)
