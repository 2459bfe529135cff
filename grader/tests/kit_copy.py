"""A copy of the kit to run commands in, as a learner has it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import forked_python
import pytest
from grader.course.source import definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.tests.quality.benchmarks.workplace import environment, without_markers

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals, pseudo-terminals and modes are POSIX's")


@dataclass
class Kit:
    root: Path

    @property
    def exercises(self) -> Path:
        return self.root / "exercises"

    def file(self, module: str) -> Path:
        return self.exercises / f"{module}.py"

    def environment(self, **more: str) -> dict[str, str]:
        return environment(self.root) | more

    def run(self, *arguments: str, cwd: Path | None = None, status: int | None = 0, **environment: str) -> str:
        """What the command prints, output then errors; its exit status must be `status`."""
        done = forked_python.run("grader.cli.main", list(arguments), cwd or self.root, self.environment(**environment))
        out, errors = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in errors, errors
        assert status is None or done.returncode == status, out + errors
        return out + errors

    def solve(self, module: str) -> None:
        """The chapter as a learner who has everything right would have it."""
        text = (self.root / "solutions" / f"{module}.py").read_text(encoding="utf-8")
        self.file(module).write_text(without_markers(text), encoding="utf-8")

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.file(module)
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def record(self, **points: float) -> None:
        """Record these points; where an exercise is the stub, write some code, because a stub has no points."""
        worth = {exercise.name: exercise.points for exercise in load_syllabus().exercises}
        for name in points:
            path = self.file(load_syllabus().exercise(name).module)
            text = path.read_text(encoding="utf-8")
            stub = definition(text, name).text
            if "raise NotImplementedError" in stub:
                path.write_text(replace_definition(text, name, stub.replace("raise NotImplementedError", "return None")), encoding="utf-8")
        lines = [f"{name} {points[name]}/{worth[name]}\n" for name in sorted(points)]
        (self.exercises / "progress.txt").write_text("".join(lines))

    def pass_chapter(self, name: str) -> None:
        self.record(**{exercise.name: exercise.points for exercise in load_syllabus().chapter(name).exercises})
