"""Chapter 24: ratings of players from the games between them."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, shaped
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from strategies import seeds

few = settings(max_examples=3)


def likeliest(wins):
    """The ratings at which all games, with one tie more between every two players, are most likely: Newton's method, with short steps."""
    count = (wins.double() + 0.5) * (1 - torch.eye(len(wins), dtype=torch.float64))
    games, ratings = count + count.T, torch.zeros(len(wins), dtype=torch.float64)
    for _ in range(2000):
        chance = torch.sigmoid(ratings[:, None] - ratings)
        slope = (count - games * chance).sum(1)
        weight = games * chance * (1 - chance)
        step = torch.linalg.lstsq(torch.diag(weight.sum(1)) - weight + 1, slope[:, None]).solution[:, 0]
        ratings = ratings + step * min(1.0, 0.5 / max(float(step.abs().max()), 1e-30))
        if float(step.abs().max()) < 1e-12:
            break
    return ratings - ratings.mean()


def are_ratings(got, expected, what):
    """Ratings (P,) in float32, right within 1e-3."""
    shaped(got, tuple(expected.shape), f"the result {what}", torch.float32)
    off = (got.double() - expected).abs()
    i = int(off.nan_to_num(math.inf).argmax())
    holds(
        bool(off[i] <= 1.01e-3),
        f"{what}, the rating of player {i} should be {float(expected[i]):.4f}, within 0.001; it is {float(got[i]):.4f}",
    )


def rated(learner, cases):
    """Each (wins, what) gets the likeliest ratings."""
    got = [learner.bradley_terry(wins) for wins, _ in cases]
    for (wins, what), mine in zip(cases, got):
        are_ratings(mine, likeliest(wins), what)


def games(seed, P, most=12):
    """How often each of P players has won against each other, in whole games; of some pairs, nobody has."""
    generator = torch.Generator().manual_seed(seed)
    wins = torch.randint(most + 1, (P, P), generator=generator) * (torch.rand(P, P, generator=generator) < 0.8)
    return wins.float().fill_diagonal_(0)


@exercise("bradley_terry", weight=2)
def test_two_players_by_hand(learner):
    """With 3 wins against 1 and one more tie, the first player has 3.5 of 5 games. So the ratings differ by log(3.5 / 1.5), and their mean is 0."""
    found = []
    for a, b in ((3.0, 1.0), (1.0, 3.0), (0.0, 0.0), (7.0, 0.0), (2.5, 1.5)):
        half = math.log((a + 0.5) / (b + 0.5)) / 2
        found.append((learner.bradley_terry(torch.tensor([[0.0, a], [b, 0.0]])), torch.tensor([half, -half], dtype=torch.float64), f"after {a:g} wins against {b:g}"))
    alone, idle = learner.bradley_terry(torch.zeros(1, 1)), learner.bradley_terry(torch.zeros(4, 4))
    for got, expected, what in found:
        are_ratings(got, expected, what)
    are_ratings(alone, torch.zeros(1, dtype=torch.float64), "without another player")
    are_ratings(idle, torch.zeros(4, dtype=torch.float64), "without any game")


@exercise("bradley_terry", weight=3)
@few
@given(P=st.integers(3, 6), seed=seeds)
def test_all_games_together_are_most_likely(learner, P, seed):
    """The ratings explain all games together: a win against a strong player is worth more than one against a weak player. The order of the players does not matter."""
    wins = games(seed, P)
    order = torch.arange(P).roll(1)
    rated(learner, [(wins, "after random games"), (wins[order][:, order], "after the same games, with the players in another order"), (wins.T.contiguous(), "after the same games with all results turned round")])


@exercise("bradley_terry", weight=2)
@few
@given(seed=seeds)
def test_a_tie_is_half_a_win_for_both(learner, seed):
    """Half wins are fine: a tie counts half for both players, and one more of them is added for every two players before anything else."""
    wins = games(seed, 4, most=5)
    ties = torch.ones(4, 4) - torch.eye(4)
    rated(learner, [(wins + ties / 2, "after random games and a tie of every two players"), (0.5 * wins, "after random ties and losses"), (wins + 20 * ties, "after random games and 40 ties of every two players")])


@exercise("bradley_terry", weight=2)
def test_undefeated_players_have_finite_ratings(learner):
    """A player that has won all of its games, or lost all, has a finite rating, thanks to the tie that is added. Players that never met are compared through others."""
    won = torch.triu(torch.full((5, 5), 3.0), diagonal=1)
    line = torch.diag(torch.full((4,), 2.0), diagonal=1)
    star = torch.zeros(5, 5)
    star[0, 1:], star[1:, 0] = torch.tensor([9.0, 5.0, 2.0, 0.0]), torch.tensor([0.0, 2.0, 5.0, 6.0])
    rated(learner, [(won, "after three wins of each player against each later one"), (line, "after two wins of each player against the next one"), (star, "after games of player 0 only")])


@exercise("bradley_terry", weight=2)
def test_lopsided_games_are_rated_precisely(learner):
    """The ratings are right within 0.001 also where that needs many steps: after 1000 games to 0, and between groups that never met."""
    line = torch.diag(torch.full((3,), 1000.0), diagonal=1)
    one_sided = torch.tensor([[0.0, 1000.0], [0.0, 0.0]])
    groups = torch.zeros(5, 5)
    groups[0, 1], groups[1, 0], groups[2, 3], groups[3, 4], groups[4, 2] = 300.0, 100.0, 90.0, 80.0, 30.0
    strong = torch.zeros(4, 4)
    strong[0, 1:], strong[1, 2], strong[2, 1], strong[2, 3] = 1000.0, 500.0, 400.0, 1000.0
    rated(learner, [
        (one_sided, "after 1000 wins against 0"), (line, "after 1000 wins of each player against the next one"), (groups, "of two groups that never met"), (strong, "after 1000 wins against 0 of several players"),
    ])  # fmt: skip


@exercise("bradley_terry", weight=2)
@few
@given(P=st.integers(3, 5), seed=seeds)
def test_the_diagonal_has_no_effect(learner, P, seed):
    """What is on the diagonal is no game: it changes nothing, and the tie that is added is not between a player and itself."""
    wins = games(seed, P)
    own = wins + torch.diag(torch.arange(1.0, P + 1) * 7)
    rated(learner, [(wins, "after random games"), (own, "after the same games, with numbers on the diagonal")])


@exercise("bradley_terry")
@few
@given(seed=seeds)
def test_wins_may_be_of_any_dtype(learner, seed):
    """Wins may be whole numbers or of half precision, and views; the ratings are always float32."""
    wins = games(seed, 4)
    cases = [(wins.to(dtype), f"after random games as {str(dtype).removeprefix('torch.')}") for dtype in (torch.int64, torch.float64, torch.float16, torch.int32)]
    cases.append((torch.tensor([[0.0, 129.0], [3.0, 0.0]], dtype=torch.bfloat16), "after 129 wins against 3 as bfloat16"))
    view, expected = learner.bring(of_views)(learner.bradley_terry, wins), likeliest(wins)
    rated(learner, cases)
    are_ratings(view, expected, "after random games as a view")


@exercise("bradley_terry")
def test_wins_are_square_and_not_below_0(learner):
    """Wins that are not square, or with a number below 0, raise a ValueError that names wins."""
    fine = learner.bradley_terry(torch.zeros(2, 2))
    for wins, why in ((torch.ones(2, 3), "2 players and 3 are not the same ones"), (torch.ones(4), "wins has one axis"), (torch.tensor([[0.0, 2.0], [-1.0, 0.0]]), "nobody has won -1 games"), (torch.ones(2, 2, 2), "wins has three axes")):
        refuses(lambda wins=wins: learner.bradley_terry(wins), naming=("wins",), because=why)
    are_ratings(fine, torch.zeros(2, dtype=torch.float64), "without any game")
