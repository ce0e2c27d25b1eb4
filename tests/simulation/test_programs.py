"""Programs on disk: found again by what they are made of, never by a number, and no worse than none when damaged."""

import os
import pickle
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from evidence.verification.instances import ON_A_LINE, ON_A_PLANE, OneOf
from gladstorm import BlumGladyshev, nsgdm, nstorm, run, sgd
from gladstorm.core.parts import part
from gladstorm.methods import Method
from gladstorm.problems import objectives
from gladstorm.problems.objectives import DoubleWell, Power
from gladstorm.simulation import programs

ORACLE = BlumGladyshev(Power(start=np.array([1.0, -2.0]), p=3.0), B=0.5, G=1.0)
FAMILIES = (ON_A_LINE, ON_A_PLANE)
NewProcess = Callable[[], Path]
NOWHERE = Path("nowhere")


def last(method: Method, oracle: BlumGladyshev = ORACLE) -> np.ndarray:
    return run(oracle, method, steps=30, seeds=2, progress=False).last


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[NewProcess]:
    """Forget what is loaded and look into the cache folder again, as a new process of the command line does."""
    own = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # JAX adds its settings when imported
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    jax.clear_caches()  # what an earlier test loaded from JAX's own cache cannot be saved again
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def started() -> Path:
        monkeypatch.setattr(programs, "_CACHE", programs._Cache())
        programs.enable_program_cache()
        return programs._CACHE.folder or NOWHERE

    yield started
    jax.config.update("jax_compilation_cache_dir", own)
    compilation_cache.reset_cache()


def test_a_later_process_compiles_nothing_and_gets_the_same_bits(
    new_process: NewProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = last(nstorm(0.1, 0.2))
    folder = new_process()
    compiled = last(nstorm(0.1, 0.2))
    assert len(files(folder)) == 2  # to start and to advance
    assert new_process() == folder
    monkeypatch.setattr(programs, "_compiled", lambda *_: pytest.fail("compiled again"))
    assert last(nstorm(0.1, 0.2)).tobytes() == compiled.tobytes() == without.tobytes()
    assert (last(nstorm(0.3, 0.5)) != compiled).all()  # other numbers, the same program


def test_methods_of_other_parts_and_points_of_other_shapes_have_programs_of_their_own(new_process: NewProcess) -> None:
    folder = new_process()
    last(sgd(0.1))
    last(nsgdm(0.1, 0.2))
    last(sgd(0.1), BlumGladyshev(objectives.named("power:3", dim=3, start=1.0), 0.5, 1.0))
    last(sgd(0.1), BlumGladyshev(Power(start=np.ones(2), p=4.0), 0.5, 1.0))  # the exponent is not a leaf
    assert len(files(folder)) == 8


@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_a_damaged_program_is_compiled_and_kept_again(new_process: NewProcess, damage: bytes | None) -> None:
    folder = new_process()
    whole = last(sgd(0.1))
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    damaged = files(new_process())
    assert last(sgd(0.1)).tobytes() == whole.tobytes()
    mended = files(folder)
    assert damaged.keys() == mended.keys()
    assert all(damaged[name] != mended[name] for name in mended)


def test_two_programs_that_changed_places_are_compiled_again(new_process: NewProcess) -> None:
    others = BlumGladyshev(Power(start=np.array([1.0, -2.0]), p=4.0), B=0.5, G=1.0)  # its programs have the same shapes
    folder = new_process()
    whole = last(sgd(0.1))
    own = set(folder.iterdir())
    last(sgd(0.1), others)
    other_programs = sorted(set(folder.iterdir()) - own, key=lambda path: path.stat().st_size)
    for path, other in zip(sorted(own, key=lambda path: path.stat().st_size), other_programs, strict=True):
        path.write_bytes(other.read_bytes())
    new_process()
    assert last(sgd(0.1)).tobytes() == whole.tobytes()


def test_a_program_xla_will_not_load_is_compiled_again(
    new_process: NewProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise jax.errors.JaxRuntimeError("machine features")

    new_process()
    whole = last(sgd(0.1))
    for loaded in (refused, lambda *_, **__: refused):  # when it is loaded, or not before it runs
        new_process()
        monkeypatch.setattr(programs, "deserialize_and_load", loaded)
        assert last(sgd(0.1)).tobytes() == whole.tobytes()


def test_without_a_place_for_the_folder_programs_are_just_compiled(new_process: NewProcess, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert new_process() == NOWHERE
    assert np.isfinite(last(sgd(0.1))).all()


def test_a_program_with_a_user_s_part_is_not_kept(new_process: NewProcess) -> None:
    @part
    class Mine(Power):
        pass

    folder = new_process()
    last(sgd(0.1), BlumGladyshev(Mine(start=np.ones(2), p=3.0), 0.5, 1.0))
    last(sgd(0.1), BlumGladyshev(objectives.from_function(lambda x: x @ x, start=np.ones(2)), 0.5, 1.0))
    assert not files(folder)


def test_other_settings_of_jax_are_other_programs_however_they_were_made(new_process: NewProcess) -> None:
    folder = new_process()
    usual = last(sgd(0.1))
    with jax.threefry_partitionable(False):  # other random numbers
        inside = last(sgd(0.1))
    assert len(files(folder)) == 4
    assert (inside != usual).all()
    assert last(sgd(0.1)).tobytes() == usual.tobytes()
    jax.config.update("jax_threefry_partitionable", False)
    try:
        assert last(sgd(0.1)).tobytes() == inside.tobytes()
    finally:
        jax.config.update("jax_threefry_partitionable", True)


@pytest.mark.parametrize(("distribution", "setting"), [("optax", None), (None, "XLA_FLAGS")])
def test_another_optax_or_another_flag_of_xla_is_another_folder(
    new_process: NewProcess, monkeypatch: pytest.MonkeyPatch, distribution: str | None, setting: str | None
) -> None:
    folder = new_process()
    if setting:
        monkeypatch.setenv(setting, f"{os.environ[setting]} --xla_cpu_enable_fast_math=true")
    else:
        monkeypatch.setattr(programs, "version", lambda name: "0.0" if name == distribution else "1.0")
        assert new_process() != folder
        folder = new_process()
        monkeypatch.setattr(programs, "version", lambda _: "1.0")
    assert new_process() != folder


def test_two_functions_of_one_name_never_share_a_program(new_process: NewProcess) -> None:
    @wraps(DoubleWell)
    def shifted(start: np.ndarray) -> DoubleWell:
        return DoubleWell(start + 1)

    folder = new_process()
    usual, other = (
        BlumGladyshev(OneOf.chosen(family, (family, DoubleWell), np.ones(2)), 0.5, 1.0)
        for family in (DoubleWell, shifted)
    )
    last(sgd(0.1), usual)
    kept = files(folder)
    last(sgd(0.1), other)
    assert files(folder) == kept  # what its name does not tell is not kept


@pytest.mark.parametrize("opened", ["folder", "file"])
def test_what_others_can_write_is_never_loaded(
    new_process: NewProcess, monkeypatch: pytest.MonkeyPatch, opened: str
) -> None:
    folder = new_process()
    whole = last(sgd(0.1))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    for path in [folder] if opened == "folder" else list(folder.iterdir()):
        path.chmod(0o777)
    monkeypatch.setattr(pickle, "loads", lambda _: pytest.fail("read"))
    new_process()
    assert last(sgd(0.1)).tobytes() == whole.tobytes()


def test_what_another_user_owns_is_never_loaded(new_process: NewProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    new_process()
    whole = last(sgd(0.1))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(pickle, "loads", lambda _: pytest.fail("read"))
    assert new_process() == NOWHERE
    assert last(sgd(0.1)).tobytes() == whole.tobytes()


def test_a_program_that_cannot_be_read_is_as_none(new_process: NewProcess) -> None:
    folder = new_process()
    whole = last(sgd(0.1))
    for path in list(folder.iterdir()):
        path.unlink()
        path.mkdir(mode=0o700)
    new_process()
    assert last(sgd(0.1)).tobytes() == whole.tobytes()


def test_without_a_home_programs_are_just_compiled(new_process: NewProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", no_home)
    assert new_process() == NOWHERE


def test_a_process_holds_the_programs_it_used_last(new_process: NewProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_process()
    monkeypatch.setattr(programs, "_MOST_LOADED", 4)
    first = last(sgd(0.1))
    for dim in (3, 4):
        last(sgd(0.1), BlumGladyshev(Power(start=np.ones(dim), p=3.0), 0.5, 1.0))
    assert len(programs._CACHE.loaded) == 4
    assert len(files(folder)) == 6
    assert last(sgd(0.1)).tobytes() == first.tobytes()
    assert len(programs._CACHE.loaded) == 4


def test_functions_of_this_package_are_told_by_their_names(new_process: NewProcess) -> None:
    folder = new_process()
    line, plane = (BlumGladyshev(OneOf.chosen(DoubleWell, families, np.ones(2)), 0.5, 1.0) for families in FAMILIES)
    last(sgd(0.1), line)
    kept = files(folder)
    assert files(new_process()) == kept
    last(sgd(0.1), line)
    assert len(files(folder)) == len(kept) == 2
    last(sgd(0.1), plane)
    assert len(files(folder)) == 4


def test_folders_of_other_versions_go_after_a_month(new_process: NewProcess) -> None:
    folder = new_process()
    for name, days in [("recent", 29), ("old", 31)]:
        other = folder.parent / name
        other.mkdir()
        (other / "program").write_bytes(b"")
        os.utime(other, times=(time.time() - days * 86400,) * 2)
    new_process()
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, "recent"}


def test_where_jax_keeps_programs_nothing_is_kept_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_CACHE", programs._Cache())
    programs.enable_program_cache()
    assert programs._CACHE.folder is None
