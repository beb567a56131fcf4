"""The examples run, and the stubs say what there is."""

import doctest
import importlib
import inspect
import os
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import everseen

PACKAGE = pathlib.Path(everseen.__file__).parent
ROOT = pathlib.Path(__file__).parents[2]


def documented():
    """All that has a documentation: (name, text)."""
    modules = [everseen]
    for module in pkgutil.walk_packages(everseen.__path__, "everseen."):
        try:
            modules.append(importlib.import_module(module.name))
        except ModuleNotFoundError as error:
            # What it is for is not installed.
            if error.name is None or error.name.partition(".")[0] == "everseen":
                raise
    for module in modules:
        yield module.__name__, module.__doc__
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", "").startswith("everseen") and callable(thing):
                yield f"{module.__name__}.{name}", thing.__doc__
                if inspect.isclass(thing):
                    for part, member in vars(thing).items():
                        if part.startswith("_"):
                            continue
                        yield f"{module.__name__}.{name}.{part}", getattr(member, "__doc__", None)


EXAMPLES = {
    name: text for name, text in documented() if isinstance(text, str) and ">>>" in text and "_everseen" not in name
}


def run(name, text, folder):
    test = doctest.DocTestParser().get_doctest(text, {"everseen": everseen}, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    report = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
    assert runner.tries > 0


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples(name, folder):
    run(name, EXAMPLES[name], folder)


def test_there_are_examples():
    assert len(EXAMPLES) > 30


@pytest.mark.parametrize("page", ["python/README.md", "docs/python.md"])
def test_examples_of_pages(page, folder):
    """Blocks of Python run one after the other, each in the names of those before it."""
    blocks = (ROOT / page).read_text().split("```python\n")[1:]
    names = {}
    for block in blocks:
        code = block.split("```")[0]
        try:
            exec(compile(code, page, "exec"), names)
        except ModuleNotFoundError as error:
            if error.name not in {"pandas", "polars"}:
                raise
    assert blocks


def test_everything_public_is_documented():
    for name in everseen.__all__:
        assert getattr(everseen, name).__doc__, name
    for name, member in vars(everseen.Store).items():
        if not name.startswith("_"):
            assert member.__doc__, name


def test_the_version_is_the_crates():
    text = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{everseen.__version__}"' in text


def test_the_stubs_are_true(folder):
    pytest.importorskip("mypy")
    # The other modules are Python, and their own stubs.
    command = [sys.executable, "-m", "mypy.stubtest", "everseen._everseen", "--ignore-missing-stub"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"MYPYPATH": ""})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(folder):
    pytest.importorskip("mypy")
    pathlib.Path("use.py").write_text(
        """
import everseen

with everseen.open("a.ever", 1000, kind="bloom") as store:
    new: bool = store.insert("key")
    count: int = int(store.insert_many(["a", b"b", None], nulls="skip").sum())
    last = store.last_commit()
    tag: bytes = last.tag if last else b""
    store.insert(5)  # type: ignore[arg-type]
    everseen.open("b.ever", kind="cuckoo")  # type: ignore[arg-type]
"""
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "use.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
