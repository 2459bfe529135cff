"""Chapter 21 on the simulated GPU: the walk says what happened, pictures show which program reads what, and the labs' tables are what their commands print."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from grader.chapters.ch21_kernels import accesses, separate, simulated_cache
from grader.course.syllabus import load_syllabus
from grader.execution.simulated_gpu import launch
from grader.execution.target import Target, reference_of, resolve
from grader.teaching.measurements import run_measurement
from grader.teaching.show.both_sides import make_picture
from grader.teaching.walks import load
from grader.teaching.walks.parts import MixedChapters
from grader.verdict.trial import Trial
from lab_tables import missing_rows, printed
from lesson_tables import words_of
from walk_runs import changed, check_walk, printed_text, run_once

MODULE = "ch21_kernels"
LABS = ("fusion", "traffic", "order")


@pytest.fixture(scope="module")
def parts():
    parts = MixedChapters(load("kernels").REQUIRED_EXERCISES, ())
    yield parts
    parts.close()


# ---- what the labs are made of


def test_the_separate_kernels_compute_a_softmax_and_the_fused_one_that_of_a_sum():
    x, y = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0))
    out, moved = separate.softmax_in_steps(x, 16)
    assert torch.allclose(out, x.softmax(1), atol=1e-6)
    assert [each.bytes_read // 4 for each in moved.values()] == [33, 36, 33, 33, 36]
    assert [each.bytes_written // 4 for each in moved.values()] == [3, 33, 33, 3, 33]
    traffic = launch(separate.add_softmax_kernel, (3,), x, y, out, 11, BLOCK=16)
    assert torch.allclose(out, (x + y).softmax(1), atol=1e-6)
    assert (traffic.bytes_read, traffic.bytes_written) == (2 * 4 * 33, 4 * 33)


def test_a_cache_forgets_what_was_used_longest_ago():
    assert simulated_cache.count_misses("abab", 2) == 2
    assert simulated_cache.count_misses("abcabc", 2) == 6 and simulated_cache.count_misses("abcabc", 3) == 3
    assert simulated_cache.count_misses("abaca", 2) == 3, "a is used between b and c, so b is forgotten"
    assert simulated_cache.count_misses("abacb", 2) == 4
    assert simulated_cache.count_misses("", 2) == 0


def test_programs_that_run_together_step_side_by_side(parts):
    reads = list(simulated_cache.tile_reads(parts.grouped_place, 2, 2, 2, 1, 2))
    assert reads[:4] == [("a", 0, 0), ("b", 0, 0), ("a", 0, 0), ("b", 0, 1)]
    assert reads[4:8] == [("a", 0, 1), ("b", 1, 0), ("a", 0, 1), ("b", 1, 1)]
    assert reads[8][:2] == ("a", 1) and len(reads) == 2 * 4 * 2


def test_accesses_are_counted_for_each_number_and_each_program():
    def kernel(tl, x, out):
        i = tl.arange(0, 2)
        tl.store(out + tl.program_id(0) * 2 + i, tl.load(x + i) + tl.load(x + tl.program_id(0) + i))

    traffic = launch(kernel, (2,), torch.ones(4), torch.zeros(4))
    assert accesses.count_accesses(traffic, "load", "x", 4).tolist() == [3, 4, 1, 0]
    assert accesses.count_accesses(traffic, "load", "x", 4, (1,)).tolist() == [1, 2, 1, 0]
    assert accesses.count_accesses(traffic, "store", "out", 4, (1,)).tolist() == [0, 0, 1, 1]
    assert sorted(accesses.program_order(traffic)) == [(0,), (1,)]


# ---- the walk


def test_the_walk_is_found_fits_the_page_and_names_exactly_the_exercises_that_run():
    check_walk("kernels")


def test_the_walk_says_what_four_programs_read_and_in_which_order():
    n, text = run_once("kernels").numbers, run_once("kernels").text
    said = " ".join(text.split())
    assert sorted(n.order) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert f"in the order {', '.join(map(str, n.order))}." in said and any(order != n.order for order in n.others)
    assert "(0, 1) reads a 0, 1, 6, 7 reads b 2, 3, 6, 7 reads a 2, 3, 8, 9 reads b 10, 11, 14, 15" in said
    assert "Each number was read 2 times." in said and "(1/BM + 1/BN) are 384." in said and n.read == 384
    assert "The result was a @ b in each of 5 orders" in said and n.differs < 1e-4
    assert "The result differs from a @ b by up to 2," in " ".join(printed_text("kernels", changed(n, differs=2.0)).split())


def test_the_walk_says_what_fused_tiled_and_grouped_kernels_save():
    n, text = run_once("kernels").numbers, " ".join(run_once("kernels").text.split())
    assert "all five 16,064 9,664 softmax_kernel 3,200 3,200" in text and "moves 4.0 times fewer bytes" in text
    reads = [counts[1] for counts in n.tiles.values()]
    assert [one / other for one, other in zip(reads, reads[1:])] == [2, 2, 2] and len({counts[2] for counts in n.tiles.values()}) == 1
    assert min(n.misses, key=n.misses.get) == 4 and n.misses[1] == n.misses[16] > 3 * n.misses[4]
    assert n.keys == [16, 32, 48, 64] and n.attention_differs < 1e-5
    assert [limit for *_, limit in n.roofs] == ["compute", "memory", "memory", "compute"]
    assert "The results differ by 0.5, but they should not." in " ".join(printed_text("kernels", changed(n, softmax_differs=0.5)).split())


# ---- what `headway show` draws


EXERCISES = {exercise.name: exercise for exercise in load_syllabus().exercises if exercise.module == MODULE}


@pytest.fixture(scope="module")
def pictures():
    with closing(Trial(resolve("solutions"))) as trial:
        return {name: make_picture(exercise, trial) for name, exercise in EXERCISES.items()}


def values(picture, number=0):
    return picture.pairs[number].reference.values


def test_every_exercise_has_a_picture_on_which_the_reference_agrees_with_itself(pictures):
    assert len(pictures) == 10 and all(picture.agrees for picture in pictures.values())


def test_the_pictures_show_which_program_reads_and_writes_what(pictures):
    for number in (0, 1):
        assert values(pictures["add_kernel"], number) == [[float(place // 4 == program) for place in range(10)] for program in range(3)]
    assert values(pictures["softmax_kernel"]) == [[1] * 5 + [0] * 3] * 3
    assert values(pictures["long_softmax_kernel"]) == [[2] * 10] * 2
    writes, of_a, of_b, _ = (values(pictures["matmul_kernel"], number) for number in range(4))
    assert writes == [[1] * 4 + [2] * 4 + [3]] * 4 + [[4] * 4 + [5] * 4 + [6]] * 2
    assert of_a == [[0] * 7] * 4 + [[1] * 7] * 2 and of_b == [[1] * 4 + [0] * 5] * 7
    assert values(pictures["attention_kernel"]) == [[1] * 4 + [0] * 6, [1] * 8 + [0] * 2, [1] * 10]
    assert values(pictures["grouped_place"], 1)[:2] == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    assert values(pictures["grouped_place"], 1)[4] == [24, 25, 26, 27, 28, 29] and values(pictures["grouped_place"])[1][0] == 6
    read = dict(zip(("x", "w", "scale"), values(pictures["int8_matmul_kernel"])))
    assert read["x"] == 4 * read["w"] == 4 * 3 * 6 * 7


def test_the_pictures_show_what_is_computed(pictures):
    for name, number in (("softmax_kernel", 1), ("long_softmax_kernel", 1)):
        assert torch.tensor(values(pictures[name], number)).sum(1).tolist() == pytest.approx([1.0] * len(values(pictures[name], number)))
    assert torch.tensor(values(pictures["rms_norm_kernel"], 1)).square().mean(1).tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    loss, gradient = (values(pictures["cross_entropy_kernel"], number) for number in range(2))
    assert loss[1] == 0 and gradient[1] == [0] * 6 and loss[0] > 0 and [number < 0 for number in gradient[2]] == [False] * 4 + [True, False]
    line = dict(pictures["roofline"].pairs[0].reference.lines["roofline"])
    assert line[100] == pytest.approx(155.5) and line[400] == pytest.approx(312)


@pytest.mark.parametrize(
    "name, old, new, verdict",
    [
        ("add_kernel", "inside = i < n", "inside = i < n + 1", "program 2 reads x[10], which has 10 numbers"),
        ("softmax_kernel", "tl.program_id(0) * stride", "tl.program_id(0) * columns", "differs from the reference's in"),
        ("matmul_kernel", "tl.program_id(1) * BN", "tl.program_id(1) * BM * 2", "differs from the reference's in"),
        ("attention_kernel", "min((tl.program_id(0) + 1) * BQ, T)", "T", "differs from the reference's in"),
        ("grouped_place", "return band * group + place % rows", "return n_rows + place % rows", "Program 0 is at row 5, column 0 of 5 rows and 6 columns of tiles."),
    ],
)
def test_a_wrong_kernel_gets_a_sentence(name, old, new, verdict):
    text = reference_of(MODULE).text
    start = text.index(f"def {name}(")
    assert old in text[start:]
    edited = text[:start] + text[start:].replace(old, new, 1)
    with closing(Trial(Target("exercises", texts={MODULE: edited}), call_seconds=5)) as trial:
        assert verdict in make_picture(EXERCISES[name], trial).verdict


# ---- the labs


@pytest.mark.parametrize("lab", LABS)
def test_the_tables_of_a_lab_are_what_its_command_prints(lab):
    assert missing_rows("ch21", lab, f"kernels_{lab}", lambda said, found: False) == []


def rows_of(*command):
    return [words_of(line) for line in printed(*command).splitlines()]


def test_options_change_what_is_counted():
    rows = rows_of("kernels_fusion", "--columns", "3")
    assert ["all", "five", f"{4 * 16 * 17:,}", str(4 * 16 * 11)] in rows and ["one", "kernel", "192", "192"] in rows
    rows = rows_of("kernels_order", "--together", "1")
    assert ["32", "2"] in [row[:2] for row in rows], "one program needs one row and one column"
    rows = rows_of("kernels_traffic", "--size", "256")
    assert ["256", "x", "256", "1"] in [row[:4] for row in rows]


@pytest.mark.parametrize(
    "command, says",
    [
        (("kernels_fusion", "--columns", "0"), "--columns must be from 1 to 16384, not 0"),
        (("kernels_traffic", "--size", "64"), "--size must be from 256 to 1000000, not 64"),
        (("kernels_order", "--together", "2000"), "--together must be from 1 to 1024, not 2000"),
    ],
)
def test_an_option_out_of_range_is_one_sentence(command, says, capsys):
    with pytest.raises(SystemExit):
        run_measurement(command[0], command[1:])
    assert says in " ".join(capsys.readouterr().err.split())
