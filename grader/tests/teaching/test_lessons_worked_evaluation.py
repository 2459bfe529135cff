"""The numbers that lesson 24 works out by hand are what the reference computes."""

from __future__ import annotations

import math
import re

import torch
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shown, shows, table_in, tables_of


def numbers(text):
    return [number for number, _ in shown(text)]


def table(heading, place=0):
    return table_in("ch24", heading, place)


def header(heading):
    [found] = [table for table in tables_of(EXERCISES / "ch24_evaluation.md") if table.heading == heading]
    return found.rows[0]


def quoted(text):
    return re.findall(r'"([^"]*)"', text)


def seeded():
    return torch.Generator().manual_seed(0)


def rights(right, count):
    return [1.0] * right + [0.0] * (count - right)


def test_three_scores_of_a_choice(ours):
    for choice, log_probs, n_bytes, *scores in table("Three scores of a choice"):
        [text], [size] = quoted(choice), numbers(n_bytes)
        assert size == len(text.encode())
        for kind, score in zip(("sum", "token", "byte"), scores):
            assert shows(score, ours.choice_score(numbers(log_probs), len(text.encode()), kind))


def test_where_a_choice_begins(ours):
    tokens = {text: pieces for (text, *_), pieces in ((quoted(a), quoted(b)) for a, b in table("Where does a choice begin?"))}
    ids = {piece: i for i, piece in enumerate(dict.fromkeys(piece for pieces in tokens.values() for piece in pieces))}

    class Tokenizer:
        def encode(self, text):
            return [ids[piece] for piece in tokens[text]]

    class Model(torch.nn.Module):
        """Gives the token behind position t the probability 1 / (t + 2), and shares the rest among the others."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, text):
            chance = 1 / (torch.arange(text.size(1)) + 2.0)
            logits = ((1 - chance) / (len(ids) - 1)).log()[None, :, None].repeat(len(text), 1, len(ids))
            for row, line in zip(logits, text):
                row[torch.arange(len(line) - 1), line[1:]] = chance[:-1].log()
            return logits

    # " red" is the third token, so its probability is the one behind position 1
    [score] = ours.score_choices(Model(), Tokenizer(), "It is ", ["red"], "sum")
    assert math.isclose(score, math.log(1 / 3), abs_tol=1e-5)


def test_answers_that_are_written(ours):
    for text, normalised in table("Answers that are written"):
        assert [ours.normalise_answer(quoted(text)[0])] == quoted(normalised)
    for text, answers, exact, f1 in table("Answers that are written", 1):
        [text], answers = quoted(text), quoted(answers)
        assert ours.exact_match(text, answers) == (exact == "yes") and shows(f1, ours.token_f1(text, answers))


def test_one_right_answer_among_k(ours):
    unbiased, power = (row[1:] for row in table("One right answer among k"))
    for k, (first, second) in enumerate(zip(unbiased, power), 1):
        assert shows(first, ours.pass_at_k(5, 2, k)) and shows(second, 1 - 0.6**k)


def test_an_interval(ours):
    for right, count, mean, ends in table("An interval"):
        [right], [count] = numbers(right), numbers(count)
        assert shows(mean, right / count)
        low, high = ours.bootstrap_interval(rights(int(right), int(count)), generator=seeded())
        assert all(abs(said - found) < 0.011 for said, found in zip(numbers(ends), (low, high)))
    texts = [i // 10 for i in range(100)]
    low, high = ours.bootstrap_interval(rights(60, 100), generator=seeded(), clusters=texts)
    assert says("ch24", "and the interval is {} to {}, as in the first row", low, high)


def test_the_same_questions(ours):
    for better, worse, p in table("The same questions"):
        [better], [worse] = numbers(better), numbers(worse)
        a = rights(int(better), int(better + worse))
        assert shows(p, ours.paired_test(a, [1 - value for value in a]))
    for right, said in ((60, "The intervals are 0.50 to 0.70"), (66, "and 0.57 to 0.75")):
        ends = ours.bootstrap_interval(rights(right, 100), generator=seeded())
        assert says("ch24", said) and all(abs(one - other) < 0.011 for one, other in zip(numbers(said), ends))
    assert says("ch24", "at six more, p is {}.", ours.paired_test([1.0] * 6, [0.0] * 6))
    exact = 2 * sum(math.comb(46, i) for i in range(26, 47)) / 2**46
    assert says("ch24", "If B is right at 26 that A misses, and wrong at 20 that A knows, p is {}.", exact)


def test_how_many_questions(ours):
    differences = [numbers(head)[0] for head in header("How many questions?")[1:]]
    for first, *cells in table("How many questions?"):
        for difference, cell in zip(differences, cells):
            assert shows(cell, ours.questions_needed(numbers(first)[0], difference))


def test_does_80_percent_mean_80_percent(ours):
    confidence, correct = [], []
    for _, answers, mean, right, gap, product in table("Does 80 % mean 80 %?"):
        [[n], [mean], [right], [gap]] = map(numbers, (answers, mean, right, gap))
        confidence += [mean] * int(n)
        correct += rights(int(right), int(n))
        assert math.isclose(gap, abs(mean - right / n), abs_tol=1e-9) and shows(product, n * gap)
    error = ours.calibration_error(torch.tensor(confidence), torch.tensor(correct))
    assert says("ch24", "The calibration error is (0.9 + 0.8) / 10 = {}.", error)


def test_one_number_that_corrects(ours):
    logits, targets = torch.tensor([[2.0, 0.0]] * 10), torch.tensor([0] * 7 + [1] * 3)
    temperature = ours.fit_temperature(logits, targets)
    before, after = (ours.cross_entropy(each, targets).item() for each in (logits, logits / temperature))
    chance = logits[0].softmax(0)[0].item()
    assert says("ch24", "so it gives its answer {}. Seven of the ten are right.", chance)
    assert says("ch24", "At the temperature {} the logits are {} and 0,", temperature, 2 / temperature)
    assert says("ch24", "The cross-entropy falls from {} to {}.", before, after)


def test_seen_in_training(ours):
    training = ours.normalise_answer("What is the capital of France? Paris.")
    assert ours.shingles(training, 4) == {"what is capital of", "is capital of france", "capital of france paris"}
    for example, *cells in table("Seen in training"):
        for n, cell in zip((4, 5), cells):
            assert ours.contaminated(quoted(example)[0], ours.shingles(training, n), n) == (cell == "yes")


def test_a_rating_from_games(ours):
    ratings = ours.bradley_terry(torch.tensor([[0.0, 3, 0], [1, 0, 3], [0, 1, 0]]))
    a, b, c = ratings.tolist()
    assert abs(b) < 1e-3
    assert says("ch24", "the ratings are {}, 0 and {}.", a, c)
    chances = torch.sigmoid(torch.stack([ratings[0] - ratings[1], ratings[0] - ratings[2]])).tolist()
    assert says("ch24", "probability sigmoid({}) = {}, and C with sigmoid({}) = {}:", a - b, chances[0], a - c, chances[1])
    scale = 400 / math.log(10)
    assert says("ch24", "400 / ln(10) = {}, the scale of Elo, so these three are {}, 0 and {} points.", scale, a * scale, c * scale)


def test_two_judges(ours):
    for yes, expected, kappa in table("Two judges"):
        share = int(yes.split()[0]) / 10
        count = int(10 * share)
        a = ["yes"] * count + ["no"] * (10 - count)
        b = a[1:] + a[:1]  # the first case and the last "yes" change: they agree at eight cases
        assert sum(x == y for x, y in zip(a, b)) == 8
        assert shows(expected, share**2 + (1 - share) ** 2) and shows(kappa, ours.agreement(a, b))


def test_both_orders(ours):
    for first, second, result in table("Both orders"):
        said = {("a", "b"): first, ("b", "a"): second}
        assert ours.judge_both_orders(lambda x, y, said=said: said[x, y], "a", "b") == result


def test_the_answers_of_predict_first():
    def at_least(count, right, chance):
        return sum(math.comb(count, i) * chance**i * (1 - chance) ** (count - i) for i in range(right, count + 1))

    assert says("ch24", "with a standard deviation of {}.", math.sqrt(50 * 0.25 * 0.75))
    assert says("ch24", "guessing reaches it in about {} of 100 cases", 100 * at_least(50, 18, 0.25))
    assert says("ch24", "five wrong answers happen in {} % of the cases", 100 * 0.9**5)
