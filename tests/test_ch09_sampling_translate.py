"""Chapter 9, fifth part: greedy translation of a source that is encoded once."""

import torch
from devices_and_dtypes import load_meta_device, on_meta
from grader.execution.proxy import load
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import given, settings
from small_models import compare_text, randomise_for_text
from strategies import seeds, token_ids
from torch import nn
from torch.nn import functional as F

few = settings(max_examples=2)  # what is broken here is broken at every example
TOO_LONG = "{length} tokens do not fit into max_len = {max_len}"


def translated(translate, Config, src, new, sos, eos, pad, training=True, frozen=False, vocab=13, quiet=False, writes_pad=False, view=False):
    """The text of a translator whose likeliest word depends on the source and on the whole target so far; a source that begins with id s ends at word s."""

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config(vocab, vocab, 40, pad_id=pad)
            self.gain = nn.Parameter(torch.tensor(3.0))
            self.drop, self.frozen = nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5))
            self.always_eval, self.graph = True, False

        def look(self, x):
            self.always_eval = self.always_eval and not any(module.training for module in self.modules())
            x = self.frozen(self.drop(self.gain * F.one_hot(x, vocab)))
            self.graph = self.graph or x.requires_grad
            return x

        def encode(self, src):
            return self.look(src)

        def decode(self, tgt, memory, src):
            T, words = tgt.size(1), [word for word in range(vocab) if word not in (sos, eos, pad)]
            read = ((memory.argmax(-1) + 1) * torch.arange(1, src.size(1) + 1) * (src != pad)).sum(1, keepdim=True)
            mixed = ((tgt + 1) * torch.arange(1, T + 1) ** 2).cumsum(1)  # every token counts, by its place
            says = torch.tensor(words)[(read + mixed * 5 + torch.arange(T)) % len(words)]
            if writes_pad:
                says[:, 1:2] = pad  # the second word
            says[torch.arange(1, T + 1) == src[:, :1]] = eos
            return self.look(says)

        def forward(self, src, tgt):
            return self.decode(tgt, self.encode(src), src)

    model = Translator().train(training)
    if frozen:
        model.frozen.eval()
    if view:
        src = src.t().contiguous().t()
    before = [module.training for module in model.modules()]
    with torch.set_grad_enabled(not quiet):
        text, restored = translate(model, src, sos, eos, new), torch.is_grad_enabled() != quiet
    return {
        "text": text,
        "always eval": model.always_eval,
        "graph": model.graph,
        "modes": [module.training for module in model.modules()] == before,
        "grad mode": restored,
        "for training": not isinstance(text, torch.Tensor) or not text.is_inference(),
    }


def sources(seed, lasts, S=5, pad=0):
    """Row b ends with word lasts[b]; some rows are padded on the right."""
    src = token_ids(seed, len(lasts), S, vocab=12)
    src += src >= pad
    for row in range(1, len(lasts)):
        src[row, S - 1 - (row + seed) % 3 :] = pad
    src[:, 0] = torch.tensor(lasts)
    return src


def texts(learner, reference, src, new, sos=10, eos=11, pad=0, **others):
    """The learner's text, the expected text, everything else from the learner's call, and the call itself."""

    def ask(who=learner):
        return who.bring(translated)(who.translate, who.Seq2SeqConfig, src, new, sos, eos, pad, **others)

    got = ask()
    return got["text"], ask(reference)["text"], got, ask


def special(seed):
    """Another pad_id, sos_id and eos_id each time, none of them 0."""
    return {"pad": 8 + seed % 2, "sos": 10 + seed % 3, "eos": 10 + (seed + 1) % 3}


@exercise("translate", weight=4)
@few
@given(seed=seeds)
def test_each_word_is_the_likeliest_next_one(learner, reference, seed):
    """Each row begins with sos_id; each new token is the decoder's likeliest one, given the memory and the whole target so far."""
    found = [texts(learner, reference, sources(seed, (9, 9, 9)), 6), texts(learner, reference, sources(seed, (9, 7), pad=9), 5, sos=12, pad=9)]
    for answer in found:
        compare_text(answer, "the text")


@exercise("translate")
@few
@given(seed=seeds)
def test_the_source_may_be_a_view(learner, reference, seed):
    """The source may be a view, whose rows are not next to each other in memory."""
    compare_text(texts(learner, reference, sources(seed, (4, 9, 2)), 4, view=True), "the text of a source that is a view, not contiguous in memory,")


def text_of(translate, Config, src, logits):
    """The text of a translator with the same logits at every position."""

    class Always(nn.Module):
        config = Config(len(logits), len(logits), 40)

        def encode(self, src):
            return src

        def decode(self, tgt, memory, src):
            return logits.expand(*tgt.shape, -1)

    return translate(Always(), src, 1, 4, 3)


@exercise("translate")
def test_float64_logits_are_not_rounded(learner):
    """With float64 logits that are equal in float32, the greatest of them is the likeliest token."""
    near = torch.tensor([0.5, 1.0, 1.0 + 1e-12, 1.0, -2.0], dtype=torch.float64)
    text = learner.bring(text_of)(learner.translate, learner.Seq2SeqConfig, sources(3, (4, 3)) % 5, near)
    same(text, torch.tensor([[1, 2, 2, 2]] * 2), "the text of float64 logits that differ by 1e-12")


def pair(learner, reference, seed, **others):
    """The learner's Seq2Seq and the reference's, with the same weights."""
    sizes = dict(src_vocab_size=13, tgt_vocab_size=17, max_len=12, d_model=12, n_heads=2, d_ff=7, n_encoder_blocks=2, n_decoder_blocks=1)
    mine, model = (who.Seq2Seq(who.Seq2SeqConfig(**sizes | others)) for who in (learner, reference))
    load(mine, randomise_for_text(model, seed, scale=1.0))
    return mine, model


@exercise("translate", weight=3)
def test_a_seq2seq_translates_padded_sources(learner, reference):
    """A Seq2Seq of chapter 7 translates a batch of padded sources; each translation is the same as in a batch of one."""
    seed = 3
    mine, model = pair(learner, reference, seed)
    src = sources(seed, (5, 7, 3, 4))
    got, expected = learner.translate(mine, src, 1, 16, 7), reference.translate(model, src, 1, 16, 7)
    short, alone = src[1, src[1] != 0][None], {}
    for name, who, seq2seq in (("got", learner, mine), ("expected", reference, model)):
        alone[name] = who.translate(seq2seq, short, 1, 16, 7)
    same(got, expected, "the text")
    same(alone["got"], alone["expected"], "the text of one row, without its padding,")


@exercise("translate", weight=3)
@few
@given(seed=seeds)
def test_a_finished_row_is_filled_with_pad_id(learner, reference, seed):
    """A row that has written eos_id keeps it and is filled with config.pad_id, whatever that is, while the other rows continue."""
    ids = special(seed)
    found = [texts(learner, reference, sources(seed, lasts, pad=ids["pad"]), 6, **ids) for lasts in ((1, 7, 3), (7, 2, 4))]
    for answer in found:
        compare_text(answer, f"the text with eos_id={ids['eos']} and pad_id={ids['pad']}")


@exercise("translate", weight=2)
@few
@given(seed=seeds)
def test_the_translation_ends_when_all_rows_are_finished(learner, reference, seed):
    """The text ends with the eos_id of the row that finishes last, even if more tokens were allowed; a single row ends with its own."""
    found = [(max(lasts), texts(learner, reference, sources(seed, lasts), 8)) for lasts in ((2, 5, 3), (4, 1, 1), (3,), (2, 2, 2))]
    for last, answer in found:
        compare_text(answer, f"the text whose last row ends after {last} of 8 words")


@exercise("translate")
@few
@given(seed=seeds)
def test_a_written_pad_id_finishes_no_row(learner, reference, seed):
    """If the decoder's likeliest token is config.pad_id, the row continues: only eos_id finishes it."""
    ids = special(seed)
    answer = texts(learner, reference, sources(seed, (5, 9, 4), pad=ids["pad"]), 6, writes_pad=True, **ids)
    compare_text(answer, f"the text whose second word is pad_id={ids['pad']}")


@exercise("translate")
@few
@given(seed=seeds)
def test_max_new_tokens_limits_the_translation(learner, reference, seed):
    """Without an eos_id there are 1 + max_new_tokens tokens: with max_new_tokens of 1, 7 or 0. eos_id may be 0 too."""
    src = sources(seed, (9, 8, 9), pad=7)
    found = [(new, texts(learner, reference, src, new, pad=7, eos=0)) for new in (1, 7, 0)]
    found.append((6, texts(learner, reference, sources(seed, (3, 9, 2), pad=7), 6, pad=7, eos=0)))
    for new, answer in found:
        compare_text(answer, f"the text with eos_id=0 and max_new_tokens={new}")


def reading(translate, model, src, new):
    """The text, and how often each position of the source went through the encoder's blocks."""
    seen = []
    for block in model.encoder_blocks:
        block.register_forward_pre_hook(lambda block, args, kwargs: seen.append((args or tuple(kwargs.values()))[0]), with_kwargs=True)
    text = translate(model, src, 1, 16, new)
    return text, sum(x.shape[:-1].numel() for x in seen) / src.numel() / len(model.encoder_blocks)


@exercise("translate", weight=3)
def test_the_source_is_read_once(learner, reference):
    """Each position of the source goes through each block of the encoder once, however long the translation is."""
    seed = 4
    mine, model = pair(learner, reference, seed)
    src = sources(seed, (5, 7, 3))
    text, times = learner.bring(reading)(learner.translate, mine, src, 6)
    expected, _ = reference.bring(reading)(reference.translate, model, src, 6)
    same(text, expected, "the text")
    holds(times <= 1, f"the source was encoded {times:.0f} times for 6 words; the memory does not change while the target grows")


@exercise("translate", weight=2)
@few
@given(seed=seeds)
def test_translating_does_not_change_the_model(learner, reference, seed):
    """Encoder and decoder are called in eval mode, without dropout, and without gradient, which is on or off afterwards as before. The text may be used in training."""
    got, expected, facts, _ = texts(learner, reference, sources(seed, (4, 9, 2)), 5)
    quiet = texts(learner, reference, sources(seed, (4, 9, 2)), 3, quiet=True)[2]
    same(got, expected, "the text of a translator with dropout")
    holds(facts["always eval"], "the model ran in train mode: with dropout the text differs each time")
    holds(not facts["graph"], "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")
    holds(facts["grad mode"], "gradients are still switched off afterwards, so no model can be trained")
    holds(quiet["grad mode"], "gradients were switched off before, and are switched on afterwards")
    holds(facts["for training"], "the text was made under torch.inference_mode: a model that is trained on it raises an error")


CASES = [
    ({"training": True}, "a model in train mode was left in another mode"),
    ({"training": False}, "a model in eval mode was left in another mode"),
    ({"frozen": True}, "a part of the model was in eval mode on purpose, and is not in it any more"),
]


@exercise("translate")
@few
@given(seed=seeds)
def test_translating_restores_the_mode_of_each_module(learner, reference, seed):
    """Afterwards each module has its old mode: train, eval, or eval in one part of a model in train mode."""
    found = [texts(learner, reference, sources(seed, (4, 9, 2)), 3, **case) for case, _ in CASES]
    for answer, (_, sentence) in zip(found, CASES):
        compare_text(answer, "the text")
        if not answer[2]["modes"]:
            answer[3]()  # the call that is shown
        holds(answer[2]["modes"], sentence)


@exercise("translate", weight=2)
def test_a_target_longer_than_max_len_raises_an_error(learner, reference):
    """A translation that needs more than max_len tokens raises a ValueError that names max_len."""
    seed = 6
    mine, _ = pair(learner, reference, seed, max_len=7)
    src, never = sources(seed, (5, 7, 3)), 99
    got = learner.translate(mine, src, 1, never, 1)
    refuses(lambda: learner.translate(mine, src, 1, never, 12), naming={"max_len": 7}, because="13 tokens do not fit into max_len = 7", example=TOO_LONG)
    shaped(got, (3, 2), "the text of 1 word", torch.int64)


def translator(translate, model):
    """Translation as a module, so that the model in it can be on another device."""

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, src):
            return translate(self.model, src, 1, 16, 3)

    return Translator()


@exercise("translate")
def test_the_translation_is_where_the_source_is(learner, reference):
    """The first tokens are created on the device of the source; each token is int64."""
    load_meta_device()
    mine, model = pair(learner, reference, 4)
    src = sources(4, (5, 7, 3))
    text, expected = learner.bring(translator)(learner.translate, mine), reference.translate(model, src, 1, 16, 3)
    same(text(src), expected, "the text")
    elsewhere = learner.bring(on_meta)(text, src)
    if elsewhere is not None:
        close(elsewhere, torch.empty_like(expected, device="meta"), "the text on the device `meta`")
