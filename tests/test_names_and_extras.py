"""Names that nobody knows and packages that are not there: what the one sentence about them says."""

import subprocess
import sys
from pathlib import Path

import pytest

from gladstorm.core.extras import EXTRAS, MissingExtraError, import_own, needing_extras


def test_a_part_of_one_s_own_is_public_and_callable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts_of_mine.py").write_text("def part(): ...\ndef _hidden(): ...\nnumber = 3\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert import_own("test", "parts_of_mine:part").__name__ == "part"
    for name in ("_hidden", "number", ""):
        with pytest.raises(ValueError, match=f"must name a class or a function of parts_of_mine; got '{name}'"):
            import_own("test", f"parts_of_mine:{name}")


def test_a_module_of_this_folder_replaces_none_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "installed").mkdir()
    for folder in (tmp_path, tmp_path / "installed"):
        (folder / "in_both_places.py").write_text(f"def part(): return {folder.name!r}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "installed"), *sys.path])
    for _ in range(2):
        assert import_own("test", "in_both_places:part")() == "installed"
        assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_or_a_module_inside_it_is_said_with_its_extra(package: str) -> None:
    extra, called = EXTRAS[package]
    for name in (package, f"{package}.inner.most"):
        with pytest.raises(MissingExtraError) as missing, needing_extras("What I want"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        said = f"What I want needs {called}, which is not installed: pip install 'gladstorm[{extra}]'"
        assert str(missing.value) == said
        assert missing.value.__suppress_context__


@pytest.mark.parametrize("name", ["other", "jaxtyping", None])
def test_a_missing_package_of_no_extra_is_said_as_python_says_it(name: str | None) -> None:
    problem = ModuleNotFoundError("it is not there", name=name)
    with pytest.raises(ModuleNotFoundError) as missing, needing_extras("What I want"):
        raise problem
    assert missing.value is problem


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["torch", "optax", "numpyro"])
def test_without_a_library_the_package_works_and_its_module_says_what_to_install(name: str) -> None:
    used = "gladstorm.nsgdm(0.1, 0.1); " if name == "optax" else ""
    done = python(f"import sys; sys.modules['{name}'] = None; import gladstorm; {used}import gladstorm.{name}")
    extra, called = EXTRAS[name]
    assert done.stderr.strip().splitlines()[-1] == (
        f"gladstorm.core.extras.MissingExtraError: gladstorm.{name} needs {called}, which is not installed: "
        f"pip install 'gladstorm[{extra}]'"
    )
    assert "line 1, in <module>" in done.stderr


@pytest.mark.parametrize(
    ("module", "heavy"), [("gladstorm.torch", ["jax"]), ("gladstorm.diagnosis", ["jax", "torch", "pandas"])]
)
def test_a_module_imports_no_library_that_it_does_not_need(module: str, heavy: list[str]) -> None:
    assert python(f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])").stdout == "[]\n"
