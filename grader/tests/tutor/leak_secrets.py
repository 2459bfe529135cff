"""What no answer of the tutor may contain, and the search for it."""

import json
import re

from grader.course.known_mistakes import misconceptions
from grader.course.stubs import BEGIN, END
from grader.course.syllabus import load_syllabus

SHORTEST_LINE, SHORTEST_SENTENCE = 18, 30  # characters, without spaces; shorter ones are in many texts


def dense(text):
    """The text without spaces: a page breaks long lines."""
    return re.sub(r"\s+", "", text)


def reference_lines(root):
    """The lines of all solutions, without comments."""
    found = set()
    for path in (root / "solutions").glob("ch*.py"):
        for part in path.read_text(encoding="utf-8").split(BEGIN)[1:]:
            found |= {dense(line.partition("  # ")[0]) for line in part.partition(END)[0].splitlines()}
    return found


class Secrets:
    """What no reply may contain."""

    def __init__(self, root):
        exercises = load_syllabus().exercises
        self.recorded = root / "exercises" / ".headway" / "hints.json"
        mistakes = [each for exercise in exercises for each in misconceptions(exercise.module, exercise.name)]
        public = [path.read_text(encoding="utf-8") for path in (root / "exercises").glob("ch*.[mp]*")]
        public += [text for each in mistakes for text in (each.says, each.hint)]
        self.public = dense("\n".join(public))
        code = reference_lines(root) | {dense(line) for each in mistakes for line in each.with_.splitlines()}
        self.code = {line for line in code if len(line) >= SHORTEST_LINE and line not in self.public}
        self.hints = {
            (exercise.name, level): dense(sentence)
            for exercise in exercises for level, hint in enumerate(exercise.hints, start=1)
            for sentence in hint.split(". ") if len(dense(sentence)) >= SHORTEST_SENTENCE
        }  # fmt: skip

    def levels(self):
        return json.loads(self.recorded.read_text(encoding="utf-8")) if self.recorded.exists() else {}

    def found_in(self, reply, own_file=""):
        """The secrets in a reply; what the learner has written is theirs."""
        said, own, levels = dense(reply), dense(own_file), self.levels()
        code = [line for line in self.code if line in said and line not in own]
        hints = [
            sentence for (name, level), sentence in self.hints.items()
            if level > levels.get(name, 0) and sentence in said and sentence not in self.public
        ]  # fmt: skip
        return code + hints
