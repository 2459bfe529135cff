"""The script of each failure, run as `headway repro` does, makes the same failure again, for every known mistake of these exercises.

The script calls the learner's function, `got` is what the page shows, and the result is still wrong.
"""

import sys

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.reproduction.files import store_script
from grader.reproduction.running import agrees, error_line, run_script, verdict_of
from grader.runner.judging import judge_of
from grader.tests.quality.devcheck.subjects import mistakes
from grader.verdict.recordings import course_recordings
from grader.verdict.replay import cache_replies
from grader.verdict.trial import Trial

SCRIPT_SECONDS = 8.0


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["KVCache", "RMSNorm", "warmup_cosine", "train_bpe"])
def test_every_failure_of_a_known_mistake_is_made_again(name, tmp_path):
    exercise, problems = load_syllabus().exercise(name), []
    with cache_replies():
        for mistake in mistakes(exercise):
            found = problems_of(exercise, mistake.text, tmp_path)
            assert found, f"no test fails with {mistake.name}"
            problems += [f"{mistake.name}, {test}: {problem}" for test, problem in found.items() if problem]
    assert not problems, "\n".join(problems)


def problems_of(exercise, text, folder):
    """Test → why its script does not make its failure again, for each test that fails with this text of the chapter."""
    file, found = folder / f"{exercise.module}.py", {}
    file.write_text(text, encoding="utf-8")
    judge = judge_of(Trial(Target(str(folder), folder)), course_recordings(), scripts=folder)
    for test in judge.tests_of(exercise):
        judge.runner.run_test(test)
    for failure in judge.run.results[exercise.name].failures:
        example = judge.run.examples[exercise.name, failure.name]
        script = store_script(example, judge.run.trial, folder)
        found[failure.name] = problem_of_script(folder / f"{exercise.name}.py", script, example, file) if script else "no script makes it again"
    judge.run.trial.close()
    return found


def problem_of_script(path, script, example, file):
    called = False

    def profile(frame, event, _):
        nonlocal called
        code = frame.f_code
        called = called or (event == "call" and code.co_filename == str(file) and code.co_name != "<module>")

    sys.setprofile(profile)
    try:
        run = run_script(path, SCRIPT_SECONDS)
        verdict = verdict_of(run, script.facts)
    finally:
        sys.setprofile(None)
    error = f" ({error_line(run.error)})" if run.error else ""
    if verdict != "wrong":
        return f"the script's result is {verdict}{error}"
    if example.kind == "compared" and (run.error or not agrees(run.space.get("got"), example.got, None)):
        return f"the script's got is not the page's{error}"
    if not called and example.kind not in ("import", "rule") and "__init__" not in example.sentence:
        return "the learner's code did not run"
    return ""
