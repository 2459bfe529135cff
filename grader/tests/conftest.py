"""Fixtures for tests that run commands."""

import shutil
import signal
import sys
from types import SimpleNamespace

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage, is_learners_package
from grader.execution.sandbox.isolation import Isolation
from grader.execution.target import package_sources, resolve
from grader.execution.worker import WorkerPool
from grader.tests.quality.benchmarks.workplace import copy_kit
from kit_copy import Kit
from warm_runs import WarmKit

LONGEST = (  # the thorough tests of the first ones take minutes, the other tests of the last ones 20 seconds and more
    "test_attacks", "test_tuning_labs", "test_train_processes", "test_grading_run", "test_lessons_measured", "test_autograder",
    "test_whole_course", "test_anonymous", "test_capstone_command", "test_compare_command", "test_grading_cluster", "test_handout",
    "test_train_command", "test_replaced_exercises", "test_reset", "test_cli", "test_plugin", "test_walks_inside", "test_sandbox_kernel",
    "test_diagnosis", "test_grading_seeds", "test_walk_command", "test_devcheck", "test_examples", "test_show_command",
)  # fmt: skip

signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, every process of the tests would ignore Control-C


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tenth", type=int, choices=range(1, 11), help="run only this tenth of the chosen tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files that take longest come first: at the end, one of them would run alone."""
    if tenth := config.getoption("--tenth", None):
        groups = {item: _group_of(item) for item in items}
        drawn = set(list(dict.fromkeys(groups.values()))[tenth - 1 :: 10])
        config.hook.pytest_deselected(items=[item for item in items if groups[item] not in drawn])
        items[:] = [item for item in items if groups[item] in drawn]
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def _group_of(item: pytest.Item) -> str:
    """Tests that share a measurement, which the marker names, are in the same tenth."""
    marker = item.get_closest_marker("measurement")
    return marker.args[0] if marker else item.nodeid


@pytest.fixture(scope="module", autouse=True)
def no_package_stays_open():
    """A package of tested code refuses imports of the kit's folders, also in the tests of the next file."""
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder in before or not is_learners_package(getattr(finder, "package", ""))]


@pytest.fixture(scope="session")
def solutions():
    """The reference's chapters: `solutions("ch03_attention")` is a module."""
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapters[-1], whole=True), "tested")
    yield package.module
    package.close()


@pytest.fixture(scope="session")
def ours(solutions):
    """Every public function and class of the reference, as an attribute."""
    found = {}
    for module in map(solutions, (chapter.name for chapter in load_syllabus().chapters)):
        found |= {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return SimpleNamespace(**found)


@pytest.fixture(scope="session")
def worker_pool():
    """Starts workers in this machine's sandbox; the tests of a process share it."""
    pool = WorkerPool()
    yield pool
    pool.close()


@pytest.fixture
def own_pool(worker_pool):
    """A pool that a test may close; its workers are forked from a copy of the shared process."""
    pool = WorkerPool(control=worker_pool.new_zygote()) if worker_pool.fork else WorkerPool()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def open_pool():
    """Starts workers without a sandbox, which would refuse much of what some tests do."""
    pool = WorkerPool(isolation=Isolation())
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The kit as in a fresh clone, with every stub unchanged."""
    root = tmp_path_factory.mktemp("template") / "kit"
    copy_kit(root)
    return root


@pytest.fixture
def kit(template, tmp_path):
    shutil.copytree(template, tmp_path / "kit", ignore=shutil.ignore_patterns(".headway"))  # a run in the template leaves one
    return Kit(tmp_path / "kit")


@pytest.fixture(scope="module")
def module_kit(template, tmp_path_factory):
    """A copy of the kit for all tests of a module."""
    root = tmp_path_factory.mktemp("module") / "kit"
    shutil.copytree(template, root)
    return Kit(root)


@pytest.fixture(scope="module")
def warm(module_kit, request):
    """A copy of the kit with its own server, started with the options that the test's module names."""
    warm = WarmKit(module_kit, *getattr(request.module, "SERVER_OPTIONS", ()))
    yield warm
    warm.close()
    assert warm.gone()


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A published model; its head is untied, because a tied random head repeats the last token."""
    from grader.tests.models.published_models import write_model  # it imports transformers, which takes seconds

    return write_model(tmp_path_factory.mktemp("published"), tied=False)


@pytest.fixture(scope="session")
def published(written):
    """It, on the reference's parts."""
    from grader.chapters.ch16_published_model.published.opening import build, find_source
    from grader.tests.models.published_models import reference_parts

    with reference_parts() as own:
        yield build(find_source(written.gguf), own)
