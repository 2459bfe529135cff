"""What an assistant gets from `headway tutor`: the SDK's client, a real server, a copy of the kit."""

import json
import re

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.sandbox.isolation import available
from leak_secrets import Secrets
from tutoring import ask, call, with_session

CHAPTER = "ch03_attention"
TOOLS = ["status", "next_exercise", "check", "hint", "lesson", "picture", "smaller_example", "questions"]
NAMED = TOOLS[2:]
WRONG = "e = torch.exp(x)\n    return e / e.sum()"


def write(kit, name, body):
    """Replace the stub of an exercise."""
    text = kit.file(CHAPTER).read_text(encoding="utf-8")
    head, _, rest = text.partition(f"def {name}(")
    assert rest
    kit.file(CHAPTER).write_text(f"{head}def {name}({rest.replace('raise NotImplementedError', body, 1)}", encoding="utf-8")


def files_of(kit):
    """Every file of the learner's, apart from what the commands record."""
    paths = [path for path in kit.exercises.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    mine = [path for path in paths if ".headway" not in path.parts and path.name != "progress.txt"]
    return {path.relative_to(kit.root): path.read_bytes() for path in mine}


def test_a_client_finds_the_tools_the_prompts_and_the_instructions(module_kit):
    async def use(session, hello):
        tools = (await session.list_tools()).tools
        prompts = (await session.list_prompts()).prompts
        stuck = await session.get_prompt("stuck", {"exercise": "softmax"})
        return hello, tools, prompts, " ".join(stuck.messages[0].content.text.split())

    hello, tools, prompts, stuck = with_session(module_kit.root, use)
    assert [tool.name for tool in tools] == TOOLS and all(tool.description for tool in tools)
    assert [prompt.name for prompt in prompts] == ["start", "stuck", "review"] and all(prompt.description for prompt in prompts)
    order = ["what did I expect", "what happened", "where do they part", "which line decides it"]
    assert [stuck.index(part) for part in order] == sorted(stuck.index(part) for part in order)
    assert "softmax" in stuck and "EXERCISE" not in stuck
    assert hello.server_info.name == "headway"
    assert "Never write or complete the learner's code" in hello.instructions and "What happened?" in hello.instructions


def test_where_the_learner_is_reads_like_the_commands(module_kit):
    (status, _), (following, _) = ask(module_kit, ("status",), ("next_exercise",))
    assert status == module_kit.run("status").strip("\n")
    assert following == module_kit.run("next").strip("\n")


def test_hints_come_one_at_a_time_and_are_recorded(kit):
    hints = load_syllabus().exercise("softmax").hints
    recorded = kit.exercises / ".headway" / "hints.json"

    async def use(session, _):
        for level, expected in enumerate(hints, start=1):
            said, is_error = await call(session, "hint", "softmax")
            said = " ".join(said.split())
            assert not is_error and f"softmax, hint {level} of 3" in said
            assert expected in said and not any(other in said for other in hints if other != expected)
            assert json.loads(recorded.read_text())["softmax"] == level
        assert "This is the last hint." in said

    with_session(kit.root, use)


@pytest.mark.parametrize("tool", NAMED)
def test_a_wrong_name_gets_the_nearest_one(module_kit, tool):
    [(said, is_error), (_, still_there)] = ask(module_kit, (tool, "sofmax"), ("status",))
    assert is_error and re.search(r"there is no exercise.* called 'sofmax'; did you mean softmax\?", said)
    assert not still_there


def test_the_lesson_of_an_exercise_is_its_paragraph_and_its_row_of_shapes(module_kit):
    one, whole, number, title, page = ask(
        module_kit, ("lesson", "causal_mask"), ("lesson", "ch03"), ("lesson", "3"), ("lesson", "attention"), ("lesson", "ch00_refresher")
    )  # fmt: skip
    assert one[0].startswith(f"From exercises/{CHAPTER}.md:\n\n**`causal_mask`** ") and one[0].count("**`") == 1
    assert "| `causal_mask(q_len, k_len)` |" in one[0]
    assert whole == number == title and whole[0].startswith("# Chapter 3: Attention") and "# Refresher" in page[0]
    lesson = (module_kit.exercises / f"{CHAPTER}.md").read_text(encoding="utf-8")
    answers = re.findall(r"</summary>\s*(.*?)\s*</details>", lesson, re.DOTALL)
    assert len(answers) > 3 and not any(answer in whole[0] for answer in answers)
    assert whole[0].count("<summary>") == whole[0].count("</details>") == lesson.count("</details>")


@pytest.mark.thorough
def test_a_wrong_attempt_gives_its_verdict_an_example_and_questions_about_both(kit):
    write(kit, "softmax", WRONG)
    before = files_of(kit)
    (verdict, _), (example, _), (asked, _), (drawn, _) = ask(kit, *[(tool, "softmax") for tool in ("check", "smaller_example", "questions", "picture")])
    assert verdict == kit.run("check", "--worker", "softmax", status=1).strip("\n")
    assert "The whole tensor sums to 1" in verdict and "Which number can you subtract" in verdict
    assert "T=2 V=3" in example and "softmax(torch.tensor([[" in example and "headway repro softmax" in example and "expected" not in example
    numbered = re.split(r"^\d\. ", asked, flags=re.MULTILINE)[1:]
    starts = ["What did you expect", "What happened", "Where do the two part", "Which line decides it"]
    assert [part.startswith(start) for part, start in zip(numbered, starts, strict=True)] == [True] * 4
    assert "Each weight is e^x" in numbered[0] and "got:" in numbered[1] and "expected:" in numbered[2] and "The whole tensor sums to 1" in numbered[3]
    shown = " ".join(verdict.split())
    assert all(" ".join(line.split()) in shown for line in asked.splitlines() if re.match(r" {8}\S", line)), "nothing that the check does not show"
    assert "yours" in drawn and "reference" not in drawn and "This is your result." in drawn
    assert files_of(kit) == before


@pytest.mark.thorough
@pytest.mark.parametrize("state", ["stub", "passed", "not Python", "deleted", "endless", "ends its process"])
def test_every_tool_answers_in_every_state_of_the_file(kit, state):
    file = kit.file(CHAPTER)
    match state:
        case "passed":
            kit.solve(CHAPTER)
        case "not Python":
            write(kit, "softmax", "return (")
        case "deleted":
            file.unlink()
        case "endless":
            write(kit, "softmax", "while True: pass")
        case "ends its process":
            write(kit, "softmax", "import os; os._exit(3)")
    before = files_of(kit)
    answers = dict(zip(NAMED, ask(kit, *[(tool, "softmax") for tool in NAMED]), strict=True))
    expected = {
        "stub": "these exercises are not implemented yet", "passed": "softmax works", "not Python": "is not valid Python", "deleted": "ch03_attention.py",
        "endless": "did not end within", "ends its process": "process",
    }  # fmt: skip
    assert expected[state] in " ".join(answers["check"][0].split())
    assert [tool for tool, (_, is_error) in answers.items() if is_error] == (["check", "smaller_example", "questions"] if state == "deleted" else [])
    assert all(text.strip() and "Traceback" not in text for text, _ in answers.values())
    asked = answers["questions"][0]
    if state != "deleted":
        assert re.findall(r"^(\d)\. ", asked, re.MULTILINE) == ["1", "2", "3", "4"][: 4 if state in ("endless", "ends its process") else 3]
    assert files_of(kit) == before


@pytest.mark.thorough
@pytest.mark.skipif(not available().landlock, reason="a worker of this machine can read all files")
def test_code_that_reads_the_reference_cannot_print_it_into_an_answer(kit):
    reference = kit.root / "solutions" / f"{CHAPTER}.py"
    write(kit, "softmax", f"print(open({str(reference)!r}).read()[-90:])\n    return x")
    [(verdict, _)] = ask(kit, ("check", "softmax"))
    assert "PermissionError" in verdict
    last = reference.read_text(encoding="utf-8")[-90:].split()
    assert not any(word in verdict for word in last if len(word) > 12)


@pytest.mark.thorough
def test_questions_are_about_the_last_check_until_a_chapter_is_saved(kit):
    script = kit.exercises / ".headway" / "repro" / "softmax.py"

    async def use(session, _):
        write(kit, "softmax", WRONG)
        await call(session, "check", "softmax")
        script.unlink()
        about_wrong = await call(session, "questions", "softmax")
        again = script.exists()
        file = kit.file(CHAPTER)
        file.write_text(file.read_text(encoding="utf-8").replace(WRONG, "return torch.softmax(x, dim)"), encoding="utf-8")
        return about_wrong, again, await call(session, "questions", "softmax")

    (wrong, _), again, (other, _) = with_session(kit.root, use)
    assert "What happened instead?" in wrong and not again  # a check that fails writes the script
    assert "uses torch.softmax" in " ".join(other.split())


def test_an_option_is_not_taken_for_a_name(module_kit):
    for tool, name in (("hint", "--level=3"), ("check", "--whole"), ("picture", "--help"), ("hint", "softmax --level=3")):
        [(said, is_error)] = ask(module_kit, (tool, name))
        assert is_error and "there is no exercise" in said, said


def test_lessons_contain_no_solution_no_hint_and_no_code_of_a_mistake(module_kit):
    secrets = Secrets(module_kit.root)
    assert len(secrets.code) > 2000 and len(secrets.hints) > 500, "the search knows what to look for"
    course = load_syllabus()
    names = [*(chapter.id for chapter in course.chapters), *(exercise.name for exercise in course.exercises)]
    replies = ask(module_kit, ("status",), ("next_exercise",), *[("lesson", name) for name in names])
    assert [found for reply, _ in replies if (found := secrets.found_in(reply))] == []


@pytest.mark.thorough
@pytest.mark.parametrize("body", ["raise NotImplementedError", WRONG, "return torch.softmax(x, dim)"])
def test_no_tool_returns_a_solution_a_later_hint_or_the_code_of_a_mistake(kit, body):
    write(kit, "softmax", body)
    secrets = Secrets(kit.root)
    replies = ask(kit, *[(tool, "softmax") for tool in NAMED])
    assert [found for reply, _ in replies if (found := secrets.found_in(reply, kit.file(CHAPTER).read_text(encoding="utf-8")))] == []
