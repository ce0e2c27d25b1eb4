"""What a result depends on: the source that its job imports, all of it and no more, and never a word of prose."""

import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evidence
import gladstorm as gs
from evidence.tightness.measuring import tightness
from evidence.verification import QUICK, verify
from gladstorm.jobs import provenance
from gladstorm.jobs.provenance import follow, is_followed, modules_of, source_of
from gladstorm.simulation.runs import Runs

SOURCE = Path(gs.__file__).parent
EVIDENCE = Path(evidence.__file__).parent
ORACLE = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2), B=0.5, G=0.5)
JOBS = {"sweep": (Runs, ORACLE, gs.nstorm(0.1, 0.1)), "verify": (verify,), "tightness": (tightness,)}


def _forget() -> None:
    """Look at the files again; what is known by its bytes stays known."""
    for cached in (
        provenance._digest_of,
        provenance._imported,
        provenance._passed_on,
        provenance._file,
        provenance.source_digest,
    ):
        cached.cache_clear()


def _keys() -> dict[str, str]:
    _forget()
    return {name: source_of(*values) for name, values in JOBS.items()}


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with copies of the source of this package and of the evidence, which are read in their place."""
    for package, folder in ((gs, SOURCE), (evidence, EVIDENCE)):
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(package, "__file__", str(copy / "__init__.py"))
    yield tmp_path
    _forget()


def _append(copy: Path, module: str, line: str) -> None:
    path = copy.joinpath(*module.split(".")).with_suffix(".py")
    path.write_text(path.read_text() + line)


def test_no_word_of_prose_changes_a_key(copied: Path) -> None:
    before = _keys()
    changed = 0
    for path in copied.rglob("*.py"):
        text, words = re.subn(r'(^|\n) *"""(?=\S)', r"\g<0>Other words. ", path.read_text())
        path.write_text(f"# a remark\n\n{text}\n# another\n")
        changed += words
    assert changed > 1000
    assert _keys() == before


def test_a_job_depends_on_what_it_imports_and_on_nothing_else(copied: Path) -> None:
    before = _keys()
    of_sweep, of_verify = (modules_of(*JOBS[name]) for name in ("sweep", "verify"))
    every = {".".join(path.relative_to(copied).with_suffix("").parts) for path in copied.rglob("*.py")}
    layers = {name.split(".")[1] for name in of_sweep if "." in name}
    assert layers == {"core", "jobs", "problems", "methods", "simulation"}
    assert {
        "gladstorm.methods.estimators.two_point",
        "gladstorm.problems.objectives.elementary",
        "gladstorm.simulation.engine",
    } < of_sweep
    assert (
        not {"gladstorm.methods.estimators.refreshing", "gladstorm.problems.objectives.regression"} & of_sweep
    )  # parts it has not
    assert of_sweep - {"gladstorm.problems.objectives.elementary", "gladstorm.methods.norms"} < of_verify
    above = ("gladstorm.torch", "gladstorm.cli", "evidence.reproduction", "evidence.verification.page")
    assert not any(name.startswith(above) for name in of_verify)
    for module in every - {name.removesuffix(".__init__") for name in of_verify}:
        if not module.endswith("__init__"):
            _append(copied, module, "\nx = 1\n")
    after = _keys()
    assert after["verify"] == before["verify"]
    assert after["sweep"] == before["sweep"]


def test_a_changed_factor_moves_the_keys_of_those_who_import_it(copied: Path) -> None:
    before = _keys()
    for module, moved in {
        "gladstorm.core.rules": {"sweep", "verify", "tightness"},
        "gladstorm.simulation.one_run": {"sweep", "verify", "tightness"},
        "gladstorm.methods.estimators.two_point": {"sweep", "verify", "tightness"},
        "gladstorm.theory.statement": {"verify", "tightness"},
        "evidence.verification.identities": {"verify"},
        "gladstorm.torch.nsgdm": set(),
    }.items():
        _append(copied, module, "\nFACTOR = 2.0\n")
        after = _keys()
        assert {name for name in JOBS if before[name] != after[name]} == moved, module
        before = after


def _executed(compute: Callable[[], Any]) -> set[str]:
    """The modules of this package of which something is executed."""
    found: set[str] = set()
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: found.add(frame.f_globals.get("__name__", "")))
    try:
        compute()
    finally:
        sys.settrace(before)
    return {name for name in found if is_followed(name)}


FEW = replace(QUICK, horizons=(2, 3), fit_from=2, seeds=2, blocks=1)


@pytest.mark.parametrize(
    ("job", "begin"),
    [
        ("gladstorm.simulation.simulate", lambda: gs.run(ORACLE, gs.methods.schedule_free(0.1), steps=1)),
        ("evidence.parts", lambda: verify(FEW, ("nsgdm/smooth/deterministic",))),
    ],
)
def test_whatever_a_task_executes_is_in_its_source(
    job: str, begin: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Any] = []

    def noted(given: list[Any], *_: Any) -> Iterator[Any]:
        tasks.append(given[-1])
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(f"{job}.results", noted)
        with pytest.raises(InterruptedError):
            begin()
    executed = _executed(tasks[0].compute)
    assert "gladstorm.simulation.engine" in executed
    assert executed <= modules_of(tasks[0].compute)


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of its own, beside this one, whose source is followed."""
    folder = tmp_path / "joined"
    for name in ("inner", "lazy"):
        (folder / name).mkdir(parents=True)
    texts = {
        "__init__.py": "",
        "other.py": "OTHER = 1",
        "job.py": "def job(): pass",
        "inner/__init__.py": "from joined.inner.target import target\nfrom joined.other import OTHER\nHERE = 1",
        "inner/target.py": "def target(): return 1.0",
        "inner/parts.py": "PARTS = 1",
        "lazy/__init__.py": "def __getattr__(name): ...",
        "lazy/__init__.pyi": "from joined.other import OTHER as OTHER",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(provenance, "_FOLLOWED", list(provenance._FOLLOWED))
    importlib.import_module("joined")
    follow("joined")
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "joined"]:
        del sys.modules[name]
    _forget()


TARGET, OTHER, INNER, PARTS = "joined.inner.target", "joined.other", "joined.inner", "joined.inner.parts"
RULES = {f"gladstorm.core.{name}" for name in ("parts", "rules", "screen")}  # what `part` comes from


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("from joined.inner.target import target", {TARGET}),
        ("from joined.inner import target", {TARGET}),  # what a package passes on is looked up
        ("from joined.inner import target as t, OTHER", {TARGET, OTHER}),
        ("from joined.inner import HERE", {INNER, TARGET, OTHER}),  # what it defines needs all that it imports
        ("from joined.inner import parts", {PARTS}),
        ("from joined.inner import *", {INNER, TARGET, OTHER}),
        ("from .inner import target", {TARGET}),
        ("from . import other", {OTHER}),
        ("from joined import inner\ninner.target()", {TARGET}),
        ("from joined import inner\nprint(inner)", {INNER, TARGET, OTHER}),
        ("from joined import inner", set()),
        ("import joined.inner.target", {TARGET}),
        ("import joined.inner.target as t", {TARGET}),
        ("import joined.inner as i\ni.parts.PARTS", {PARTS}),
        ("import joined.inner\njoined.inner.target()", {TARGET}),
        ("import joined.lazy\nfrom joined.lazy import OTHER", {OTHER}),  # what is imported when used is in the stub
        ("from joined import lazy\nlazy.OTHER", {OTHER}),
        ("from joined import lazy\nprint(lazy)", {"joined.lazy", OTHER}),
        ("def job():\n    from joined.other import OTHER", {OTHER}),
        ("try:\n    pass\nexcept ImportError:\n    from joined.other import OTHER", {OTHER}),
        ("try:\n    pass\nfinally:\n    from joined.other import OTHER", {OTHER}),
        ("class A:\n  match 1:\n    case 1:\n      import joined.other", {OTHER}),
        ("if TYPE_CHECKING:\n    import joined.other\nelse:\n    import joined.inner.parts", {PARTS}),
        ("import numpy, joinedly\n'joined.other'\nfrom joined.missing import x", set()),
        ("from gladstorm.jobs.progress import within", {"gladstorm.jobs.progress"}),
        ("import gladstorm as gs\ngs.part", RULES),  # by its stub
        ("from gladstorm import part", RULES),
    ],
)
def test_every_form_of_import_is_followed_and_nothing_else_is(joined: Path, text: str, imported: set[str]) -> None:
    (joined / "job.py").write_text(text)
    _forget()
    assert {name for name in provenance._closure({"joined.job"}) if name != "gladstorm"} == {"joined.job"} | imported


def test_a_new_import_and_what_it_imports_are_followed(joined: Path) -> None:
    def key() -> str:
        _forget()
        return source_of(importlib.import_module("joined.job").job)

    first = key()
    (joined / "job.py").write_text("from joined.inner import target\ndef job(): pass")
    second = key()
    (joined / "inner" / "target.py").write_text("def target(): return 2.0")
    third = key()
    (joined / "inner" / "target.py").write_text("from joined.other import OTHER\ndef target(): return 2.0")
    fourth = key()
    (joined / "other.py").write_text("OTHER = 2")
    assert len({first, second, third, fourth, key()}) == 5


def test_a_picture_that_a_record_draws_of_itself_decides_no_result(copied: Path) -> None:
    before = modules_of(Runs)
    _append(
        copied,
        "gladstorm.simulation.record",
        "\ndef plot():\n    from gladstorm.plotting.figures import gradient_norms\n",
    )
    _forget()
    assert modules_of(Runs) == before


@pytest.mark.usefixtures("joined")
def test_nothing_below_depends_on_what_stands_above() -> None:
    assert (
        provenance._layer("joined.job") > provenance._layer("gladstorm.cli.app") > provenance._layer("gladstorm.core")
    )
    assert not any(name.startswith("joined") for name in modules_of(verify))


def test_what_an_object_is_made_of_decides() -> None:
    storm = "gladstorm.methods.estimators.two_point"
    for value in (
        gs.nstorm(0.1, 0.1),
        [gs.nstorm(0.1, 0.1)],
        {"a": gs.estimators.Storm(0.1)},
        partial(print, gs.estimators.Storm(0.1)),
    ):
        assert storm in modules_of(value)
    assert storm in modules_of(gs.estimators.Storm(0.1).direction)  # a method that it inherits knows its object
    assert storm not in modules_of(gs.sgd(0.1))
    assert modules_of(np.ones(3), 1.0, None, print) == set()

    class Mine(gs.estimators.Storm):
        pass

    assert storm in modules_of(Mine)  # a user's class computes with what it inherits


def test_every_byte_decides_what_is_made_again_in_no_time(copied: Path) -> None:
    _forget()
    before = provenance.source_digest()
    _append(copied, "gladstorm.torch.nsgdm", "# a remark")
    _forget()
    assert provenance.source_digest() != before
