# variant: how many tokens are left is an argument that counts down
def generate_matching(model, tokenizer, prompt_ids, automaton, max_new_tokens, temperature=0.0, generator=None, eos_id=None):
    tokens = token_bytes(tokenizer)
    if eos_id is not None:
        tokens[eos_id] = b""
    table = token_table(automaton, tokens)
    start, accepting, _ = automaton
    needed = tokens_to_end(table, accepting)
    if needed.get(start, float("inf")) > max_new_tokens:
        raise ValueError(f"{max_new_tokens=} is too small")

    def go_on(text, state, remaining):
        possible = {i: to for i, to in table[state].items() if needed[to] < remaining}
        choices = list(possible)
        if state in accepting and eos_id is not None:
            choices.append(eos_id)
        if not choices:
            return []
        if len(choices) > 1:
            logits = constrain(next_logits(model, text), choices)
            chosen = sample_next_token(logits, temperature=temperature, generator=generator).item()
        else:
            (chosen,) = choices
        if chosen == eos_id:
            return []
        return [chosen, *go_on([*text, chosen], possible[chosen], remaining - 1)]

    return go_on([*prompt_ids], start, max_new_tokens)


# variant: how many tokens each state needs is computed here, round by round; the choice is made by hand
import torch


def generate_matching(model, tokenizer, prompt_ids, automaton, max_new_tokens, temperature=0.0, generator=None, eos_id=None):
    tokens = [token if number != eos_id else b"" for number, token in enumerate(token_bytes(tokenizer))]
    state, accepting = automaton[0], automaton[1]
    table = token_table(automaton, tokens)
    needs = {}
    for n in range(max_new_tokens + 1):
        for one, row in table.items():
            if one not in needs and (one in accepting if n == 0 else any(needs.get(after) == n - 1 for after in row.values())):
                needs[one] = n
    if state not in needs:
        raise ValueError(f"nothing that matches has at most {max_new_tokens} tokens (max_new_tokens)")
    ids, first = list(prompt_ids), len(prompt_ids)
    for used in range(max_new_tokens + 1):
        allowed = {i for i, after in table[state].items() if used + 1 + needs.get(after, max_new_tokens) <= max_new_tokens}
        ends = eos_id is not None and state in accepting
        if ends:
            allowed.add(eos_id)
        if len(allowed) == 0:
            break
        if len(allowed) == 1:
            token = allowed.pop()
        else:
            logits = constrain(next_logits(model, ids), torch.tensor(sorted(allowed)))
            if temperature == 0:
                token = int(torch.argmax(logits))
            else:
                token = int(torch.multinomial(torch.softmax(logits / temperature, dim=0), 1, generator=generator))
        if ends and token == eos_id:
            break
        ids.append(token)
        state = table[state][token]
    return ids[first:]


# variant: the model is called directly, in eval mode and without gradient for the whole text
import torch

from .ch09_sampling import looking_at, sample_next_token


def generate_matching(model, tokenizer, prompt_ids, automaton, max_new_tokens, temperature=0.0, generator=None, eos_id=None):
    start, accepting, step = automaton
    end = set() if eos_id is None else {eos_id}
    bytes_of = [b"" if i in end else b for i, b in enumerate(token_bytes(tokenizer))]
    table = token_table(automaton, bytes_of)
    distance = tokens_to_end(table, accepting)
    assert distance.get(start, max_new_tokens + 1) <= max_new_tokens, f"max_new_tokens {max_new_tokens} does not suffice"
    config = getattr(model, "config", None)
    most = config.max_len if config is not None and config.positions in ("learned", "sinusoidal") else 10**9
    device = next(model.parameters()).device
    text = torch.tensor([list(prompt_ids)], device=device)
    written, state = [], start
    with looking_at(model):
        while True:
            open_ids = {i: after for i, after in table[state].items() if len(written) + distance[after] < max_new_tokens}
            choices = [*open_ids, *(end if state in accepting else ())]
            if not choices:
                return written
            token = choices[0]
            if len(choices) > 1:
                result = model(text[:, -most:])
                logits = result if torch.is_tensor(result) else result[0]
                token = int(sample_next_token(constrain(logits[:, -1], choices), temperature, None, None, generator)[0])
            if token in end:
                return written
            written.append(token)
            text = torch.cat([text, torch.tensor([[token]], device=device)], dim=1)
            state = open_ids[token]
