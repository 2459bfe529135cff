"""The examples of a graded test are the same whatever code is loaded beside it."""

from graded_runs import environment, grade, solution

LOGGING = """

_apply_rope = apply_rope


def apply_rope(x, positions, base=10000.0):
    with open({log!r}, "a") as log:
        print(x.shape, float(x.sum()), file=log)
    return _apply_rope(x, positions, base)
"""
NUMBERS = "\nNUMBERS = [" + ", ".join(str(n) for n in range(101, 160)) + "]\n"


def asked(folder, extra: str, **options) -> str:
    """What the tests asked of a right apply_rope in a chapter with this text at its end."""
    folder.mkdir()
    log = folder / "asked.txt"
    name = "ch04_positions_in_attention"
    (folder / f"{name}.py").write_text(solution("ch04") + LOGGING.format(log=str(log)) + extra)
    run = grade("--target", str(folder), "--exercise", "apply_rope", results=folder / "results.json", **options)
    assert run.exercise("apply_rope")["outcome"] == "passed", run.out
    return log.read_text()


def test_the_numbers_in_a_learners_code_do_not_change_the_examples(tmp_path):
    plain, numbered = asked(tmp_path / "plain", ""), asked(tmp_path / "numbered", NUMBERS)
    assert plain == numbered and len(set(plain.splitlines())) > 10


def test_what_else_is_imported_does_not_change_the_examples(tmp_path):
    (tmp_path / "beside.py").write_text(NUMBERS)
    path = environment().get("PYTHONPATH", "")
    beside = {"PYTHONPATH": f"{tmp_path}:{path}", "PYTEST_PLUGINS": "beside"}
    assert asked(tmp_path / "plain", "") == asked(tmp_path / "numbered", "", **beside)
