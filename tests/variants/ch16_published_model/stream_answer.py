# variant: an incremental decoder of UTF-8
import codecs

import torch


def stream_answer(model, tokenizer, messages, max_new_tokens=200, temperature=0.0, top_p=1.0, generator=None):
    byte_of = {name: byte for byte, name in byte_names().items()}
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    end = tokenizer.encode(END, True)[0]
    ids, caches = torch.tensor([chat_ids(tokenizer, messages)]), model.new_caches()
    made = 0
    while made < max_new_tokens:
        with looking_at(model):
            token = int(sample_next_token(model(ids, caches)[0, -1], temperature, top_p=top_p, generator=generator))
        made += 1
        if token == end:
            break
        piece = decoder.decode(bytes(byte_of[name] for name in tokenizer.tokens[token]))
        if piece:
            yield piece
        ids = torch.tensor([[token]])
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest


# variant: ids in a list, what was sent as a text
import torch


def stream_answer(model, tokenizer, messages, max_new_tokens=200, temperature=0.0, top_p=1.0, generator=None):
    stop = set(tokenizer.encode("<|im_end|>", allow_special=True))
    prompt, written, sent = chat_ids(tokenizer, messages), [], ""
    caches = model.new_caches()

    @torch.no_grad()
    def choose(ids):
        was = model.training
        model.eval()
        try:
            logits = model(torch.tensor(ids)[None], caches)
        finally:
            model.train(was)
        return sample_next_token(logits[:, -1, :], temperature=temperature, top_p=top_p, generator=generator).item()

    following = prompt
    for _ in range(max_new_tokens):
        token = choose(following)
        if token in stop:
            break
        following = [token]
        written.append(token)
        whole = tokenizer.decode(written)
        while whole.endswith("\ufffd"):
            whole = whole[:-1]
        if whole != sent:
            yield whole[len(sent) :]
            sent = whole
    last = tokenizer.decode(written)
    if len(last) > len(sent):
        yield last[len(sent) :]


# variant: an inner generator of tokens
import torch


def _tokens(model, ids, end, limit, choose):
    caches = model.new_caches()
    for _ in range(limit):
        with looking_at(model):
            new = choose(model(ids, caches)[:, -1])
        if int(new) == end:
            return
        yield int(new)
        ids = new.view(1, 1)


def stream_answer(model, tokenizer, messages, max_new_tokens=200, temperature=0.0, top_p=1.0, generator=None):
    (end,) = tokenizer.encode(END, allow_special=True)
    ids = torch.tensor(chat_ids(tokenizer, messages)).unsqueeze(0)
    held, done = [], ""
    for token in _tokens(model, ids, end, max_new_tokens, lambda logits: sample_next_token(logits, temperature, None, top_p, generator)):
        held.append(token)
        text = tokenizer.decode(held)
        if not text.endswith("\ufffd"):
            if len(text) > len(done):
                yield text[len(done) :]
            held, done = [], ""
        elif len(text.rstrip("\ufffd")) > len(done):
            yield text.rstrip("\ufffd")[len(done) :]
            done = text.rstrip("\ufffd")
    if held:
        rest = tokenizer.decode(held)[len(done) :]
        if rest:
            yield rest
