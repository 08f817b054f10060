"""Commands that README.md and docs/ name are ones that the scripts take, and the site has every page."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from docs_commands import Command, commands, commands_of, pages
from forked import forked

from flashnerd_ext.errors import FlashNerdError

SIMULATED = {"scripts/rsl_rl/train.py": "train", "scripts/rsl_rl/play.py": "play"}
"""Scripts whose words are Isaac Lab's to judge."""
JOBS = {
    "scripts/assets.py": ("_build", "_list", "_path", "_pictures", "_verify"),
    "scripts/bundle.py": ("show_list", "show", "verify", "seal", "physical"),
}
"""Scripts of several commands, and what does the work of each."""


class Parsed(Exception):
    """Raised when a script has read its options and would begin."""


def load(repo: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module that ends where its own parser is done."""
    path = repo / script
    assert path.is_file(), f"there is no {script}"
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    for job in JOBS.get(script, ()):
        monkeypatch.setattr(module, job, lambda *_: 0)
    owner = sys.modules[module.main.__module__]
    for name in ("parse", "read_options"):
        if hasattr(owner, name):
            monkeypatch.setattr(owner, name, stopping(getattr(owner, name)))
    return module


def stopping(parser: Any) -> Any:
    def parse(*args: Any, **kwargs: Any) -> None:
        parser(*args, **kwargs)
        raise Parsed

    return parse


def wrong(repo: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is wrong with a command of a script that does not start Isaac Lab, or nothing."""
    with monkeypatch.context() as patch:
        module: Any = load(repo, command.program, patch)
        patch.setattr(sys, "argv", [command.program, *command.options])
        try:
            if command.program == "scripts/export_usd.py":
                from flashnerd_ext.rl.export_usd import parser

                left = parser(None).parse_known_args(command.options)[1]
                return next((f"{word} is no option" for word in left if word.startswith("-")), "")
            module.main()
        except Parsed:
            return ""
        except FlashNerdError as error:
            return str(error)
        except SystemExit as end:
            return f"the parser ends with {end.code}" if end.code else ""
        return "" if command.program in JOBS else "the script read no options"


def wrong_torchrun(command: Command) -> str:
    from torch.distributed.run import get_args_parser

    try:
        script = get_args_parser().parse_args(list(command.words[1:])).training_script
    except SystemExit:
        return "torchrun does not take its options"
    return "" if script == command.program else f"torchrun takes {script} for the script"


def wrong_make(repo: Path, command: Command) -> str:
    makefile = (repo / "Makefile").read_text()
    scripts = "".join(path.read_text() for path in sorted((repo / "scripts/setup").glob("*.sh")))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for word in command.words[1:]:
        name, equals, _ = word.partition("=")
        if equals and not re.search(rf"\b{name}\b", makefile + scripts):
            return f"nothing reads {name}"
        if not equals and word not in targets:
            return f"the Makefile has no target {word}"
    return ""


def job(command: Command) -> list[Any] | None:
    """A command whose words Isaac Lab judges, as ``docs_isaaclab.py`` takes it; a bare name is no command.

    A bundle of the reader's is not here, so that the robot's own stands for it.
    """
    words = [re.sub(r"^(env\.\S+\.bundle)=.*", r"\1=auto", word) for word in command.words]
    if command.program in SIMULATED:
        return [SIMULATED[command.program], True, words[words.index(command.program) + 1 :]]
    if words[0] == "isaaclab" and words[1] in ("train", "play") and len(words) > 2:
        return [words[1], False, words[2:]]
    return None


@pytest.fixture(scope="module")
def simulated(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Command -> what Isaac Lab and the task's configuration say against it; all in one process that has Isaac Lab."""
    asked = {str(command): words for command in [*commands(repo), *wrong_ones()] if (words := job(command)) is not None}
    file = tmp_path_factory.mktemp("docs") / "commands.json"
    file.write_text(json.dumps([*asked.values()]))
    for folder in set(re.findall(r"\bdata/\w+", file.read_text())):
        (file.parent / folder).mkdir(parents=True)
        (file.parent / folder / "dataset.json").touch()
    done = forked(repo / "tests/docs_isaaclab.py", file, cwd=file.parent)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(asked, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """In an empty folder, where some parsers make the folder of their results, with a display."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPLAY", ":0")  # a window is an option like any other
    return monkeypatch


def test_every_command_is_one_that_its_program_takes(
    repo: Path, elsewhere: pytest.MonkeyPatch, simulated: dict[str, str], record_property: Any
) -> None:
    found, bad = commands(repo), []
    for command in found:
        if command.words[0] == "make":
            text = wrong_make(repo, command)
        elif command.words[0] == "isaaclab" and job(command) is None:
            known = ("train", "play", "list_envs")
            text = "" if command.words[1:2] and command.words[1] in known else "this command is not known here"
        else:
            text = simulated[str(command)] if job(command) is not None else wrong(repo, command, elsewhere)
            text = text or (wrong_torchrun(command) if command.words[0] == "torchrun" else "")
        bad += [f"{command}: {text}"] if text else []
    assert not bad, "\n".join(bad)

    count = Counter(command.program for command in found)
    gpu = sum(command.gpu for command in found)
    print(f"{len(found)} commands in {len(pages(repo))} pages, {gpu} of them in blocks that need a GPU")
    print(*(f"{number:4d} {program}" for program, number in sorted(count.items())), sep="\n")
    record_property("commands", len(found))


WRONG = """
```sh title="needs a GPU, not run here"
python scripts/dataset.py robot=cartpole \\
    outt=data    # a comment
python scripts/rsl_rl/train.py --task FlashNeRD-Cartpole agent.max_iteration=5
python scripts/rsl_rl/play.py --task FlashNeRD-Cartpole --vidoe
isaaclab train --rl_library rsl_rl --task FlashNeRD-Cartpol physics=flashnerd
```
`make demoo ARGS=--fresh`, `python scripts/demos/cartpole.py --vidoe` and `python scripts/bundle.py shov cartpole`
`torchrun --nprocs=2 scripts/train_dynamics.py train.batsh=4` and `python scripts/dataset.py robot=go2 ...`
"""


def wrong_ones() -> list[Command]:
    """Commands with a mistake each, but for the last."""
    return commands_of(WRONG, "page.md")


def test_a_wrong_command_is_found(repo: Path, elsewhere: pytest.MonkeyPatch, simulated: dict[str, str]) -> None:
    dataset, train, play, isaaclab, make, demo, bundle, torchrun, good = wrong_ones()
    assert dataset.gpu and train.gpu and not make.gpu
    assert dataset.place == "page.md:4" and good.options == ["robot=go2"]
    assert "outt" in wrong(repo, dataset, elsewhere)
    assert "demoo" in wrong_make(repo, make)
    assert wrong(repo, demo, elsewhere) and "shov" in wrong(repo, bundle, elsewhere)
    assert wrong_torchrun(torchrun) and "batsh" in wrong(repo, torchrun, elsewhere)
    assert not wrong(repo, good, elsewhere)
    assert "max_iteration" in simulated[str(train)]
    assert "vidoe" in simulated[str(play)]
    assert "FlashNeRD-Cartpol" in simulated[str(isaaclab)]


def test_every_script_is_named(repo: Path) -> None:
    named = {command.program for command in commands(repo)}
    text = "".join(page.read_text() for page in [*pages(repo), repo / "Makefile"])
    scripts = [path for path in sorted((repo / "scripts").rglob("*.py")) if path.parent.name != "setup"]
    missing = [str(path.relative_to(repo)) for path in scripts if str(path.relative_to(repo)) not in named]
    assert not [name for name in missing if Path(name).name not in text]


def site(repo: Path) -> dict[str, Any]:
    return yaml.safe_load((repo / "mkdocs.yml").read_text())


def test_the_site_has_every_page(repo: Path) -> None:
    def files(entry: Any) -> list[str]:
        if isinstance(entry, dict):
            return [name for value in entry.values() for name in files(value)]
        return [name for item in entry for name in files(item)] if isinstance(entry, list) else [entry]

    listed = files(site(repo)["nav"])
    assert len(listed) == len(set(listed))
    assert set(listed) == {str(page.relative_to(repo / "docs")) for page in pages(repo)[1:]}


def test_the_reference_names_what_exists(repo: Path) -> None:
    """A name that is gone would end the build of the site; this is the same, without building it."""
    names = [
        name
        for page in (repo / "docs/reference").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
    ]
    assert len(names) > 20
    for name in names:
        file = repo / "source" / Path(*name.split("."))
        assert file.with_suffix(".py").is_file() or file.is_dir() or defined(repo, name), f"{name} is not defined"


def defined(repo: Path, name: str) -> bool:
    module, _, leaf = name.rpartition(".")
    file = repo / "source" / Path(*module.split(".")).with_suffix(".py")
    return file.is_file() and re.search(rf"^(class|def) {leaf}\b|^{leaf}\b", file.read_text(), re.M) is not None
