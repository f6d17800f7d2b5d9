"""
Carries out the instructions of a Dockerfile without a container engine.

The directory `root` is a stage's root file system while the stage is built; an absolute path that
an instruction names becomes a path below it. A finished stage is moved aside, so that all stages
see their files at the same place, as they do in an engine.

What it can't show: the base image (a virtual environment of this Python stands for it at
/usr/local, and /usr/bin and /bin are this machine's), other architectures, owners of files, users,
and anything that a program does to absolute paths of its own accord. It refuses instructions and
paths that it doesn't understand.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

# Where the shell's tools are, which every base image has.
_TOOLS = "/usr/bin:/bin"
# How this machine reaches its package index; the engine's user says so by build arguments.
_OF_THE_MACHINE = re.compile(r"HOME|PIP_\w+|SSL_CERT_\w+|\w+_CA_BUNDLE|(?i:https?|no)_proxy")
# A slash that begins a path: not one within a path, nor one after a variable or a pattern.
_BEGINS_A_PATH = re.compile(r"(?<![\w./*?\]}])/(?=[A-Za-z])")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class DockerfileError(Exception):
    """An instruction is not understood, or failed; says which."""


@dataclass(slots=True)
class Image:
    """A stage: its root file system, and what its instructions say of a container."""

    root: Path
    base: str
    env: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    workdir: Path = Path()
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """What a process of a container sees, without the machine's own programs on its PATH."""
        path = [each for each in self.env["PATH"].split(":") if each.startswith(str(self.root))]
        return {**self.env, "PATH": ":".join(path), "HOME": str(self.root)}

    def command(self, *arguments: str) -> list[str]:
        """The entry point with *arguments*, or with what CMD says."""
        program, *first = self.entrypoint
        found = shutil.which(program, path=self.environment()["PATH"])
        assert found is not None, f"{program} is not on the image's PATH"
        return [found, *first, *(arguments or self.cmd)]


def parse_dockerfile(text: str) -> list[tuple[str, str]]:
    """Its instructions in order, each with its arguments on one line."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name.upper(), rest.strip()) for name, _, rest in found]


def make_python(root: Path) -> None:
    """Put what a base image with Python has below *root*."""
    # With the pip of today, as such images have it: the one that this Python has may be slow.
    venv.create(root / "usr/local", with_pip=True, symlinks=True, upgrade_deps=True)


def build(
    context: Path,
    directory: Path,
    arguments: Mapping[str, str] | None = None,
    make_base: Callable[[Path], None] = make_python,
) -> Image:
    """
    Build the last stage of *context*'s Dockerfile below *directory*, with build *arguments*.

    *make_base* fills the root of every stage.

    The other stages stay at `stages/NAME` below *directory*.

    Raises:
        DockerfileError: a step failed, with what it said; or one is not understood.
    """
    builder = _Builder(context, directory, arguments or {}, make_base)
    for name, rest in parse_dockerfile((context / "Dockerfile").read_text()):
        builder.carry_out(name, rest)
    return builder.image


class _Builder:
    def __init__(
        self,
        context: Path,
        directory: Path,
        arguments: Mapping[str, str],
        make_base: Callable[[Path], None],
    ) -> None:
        self._context = context
        self._make_base = make_base
        self._root = directory / "root"
        self._base = directory / "base"
        self._stages = directory / "stages"
        self._is_left_out = read_ignored((context / ".dockerignore").read_text())
        self._given = arguments
        # Of all stages, and of this one.
        self._global: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._image: Image | None = None
        self._name = ""

    @property
    def image(self) -> Image:
        if self._image is None:
            raise DockerfileError("no FROM before the first step")
        return self._image

    def carry_out(self, name: str, rest: str) -> None:
        steps: dict[str, Callable[[str], None]] = {
            "FROM": self._from,
            "ARG": self._arg,
            "ENV": self._env,
            "RUN": self._run,
            "COPY": self._copy,
            "WORKDIR": self._workdir,
            "USER": self._user,
            "LABEL": self._label,
            "ENTRYPOINT": self._entrypoint,
            "CMD": self._cmd,
            "EXPOSE": lambda _: None,
        }
        if name not in steps:
            raise DockerfileError(f"{name} {rest}: not understood")
        steps[name](rest)

    def _from(self, rest: str) -> None:
        if self._image is not None:
            self._stages.mkdir(exist_ok=True)
            self._root.rename(self._stages / self._name)
        base, *more = _expand(rest, self._global).split()
        self._name = more[1] if more else "last"
        self._arguments = {}
        if not self._base.exists():
            # Made where it will be used: scripts name their interpreter by its full path.
            self._make_base(self._root)
            self._root.rename(self._base)
        shutil.copytree(self._base, self._root, symlinks=True)
        path = f"{self._root}/usr/local/bin:{_TOOLS}"
        self._image = Image(self._root, base, env={"PATH": path}, workdir=self._root)

    def _arg(self, rest: str) -> None:
        name, has_default, default = rest.partition("=")
        scope = self._global if self._image is None else self._arguments
        if name in self._given:
            scope[name] = self._given[name]
        elif has_default:
            scope[name] = _expand(default, scope)
        elif name in self._global:
            scope[name] = self._global[name]

    def _env(self, rest: str) -> None:
        for word in shlex.split(rest):
            name, _, text = word.partition("=")
            # Only what stands here is moved below the root: a variable's text was before.
            self.image.env[name] = self._expand(self._below(text))

    def _label(self, rest: str) -> None:
        for word in shlex.split(rest):
            name, _, text = word.partition("=")
            self.image.labels[name] = self._expand(text)

    def _run(self, rest: str) -> None:
        script = self._below(rest)
        for word in re.findall(r"[^\s'\"=:;&|()<>]+", script):
            outside = word.startswith("/") and not word.startswith(f"{self._root}/")
            if outside or word.startswith("~") or ".." in word.split("/"):
                raise DockerfileError(f"RUN {rest}: {word} is not below the root")
        machine = {name: at for name, at in os.environ.items() if _OF_THE_MACHINE.fullmatch(name)}
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=self.image.workdir,
            env={**machine, **self._arguments, **self.image.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DockerfileError(f"RUN {rest}: exit code {done.returncode}\n{done.stderr[-4000:]}")

    def _copy(self, rest: str) -> None:
        words = self._expand(rest).split()
        flags = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
        *sources, to = [word for word in words if not word.startswith("--")]
        if flags.keys() - {"from", "chown"}:
            raise DockerfileError(f"COPY {rest}: not understood")
        target = self.image.workdir / self._below(to)
        for each in sources:
            if "from" in flags:
                source, files = self._in_stage(flags["from"], each)
            else:
                source, files = self._context / each, self._in_context(each)
            into_directory = len(sources) > 1 or to.endswith("/")
            for file in files:
                under = file.relative_to(source)
                at = target / source.name if under == Path() and into_directory else target / under
                _copy_one(file, at)

    def _in_stage(self, stage: str, path: str) -> tuple[Path, list[Path]]:
        source = self._stages / stage / path.lstrip("/")
        if not source.is_dir():
            return source, [source]
        return source, [source, *source.rglob("*")]

    def _in_context(self, path: str) -> list[Path]:
        source = self._context / path
        every = [source] if source.is_file() else sorted(source.rglob("*"))
        found = [
            file
            for file in every
            if file.is_file() and not self._is_left_out(file.relative_to(self._context).as_posix())
        ]
        if not found:
            raise DockerfileError(f"COPY {path}: not in the context")
        return found

    def _workdir(self, rest: str) -> None:
        self.image.workdir = self._root / self._expand(rest).lstrip("/")
        self.image.workdir.mkdir(parents=True, exist_ok=True)

    def _user(self, rest: str) -> None:
        self.image.user = self._expand(rest)

    def _entrypoint(self, rest: str) -> None:
        self.image.entrypoint = _words(rest)

    def _cmd(self, rest: str) -> None:
        self.image.cmd = _words(rest)

    def _expand(self, text: str) -> str:
        return _expand(text, {**self._arguments, **self.image.env})

    def _below(self, text: str) -> str:
        return _BEGINS_A_PATH.sub(f"{self._root}/", text)


def read_ignored(text: str) -> Callable[[str], bool]:
    """Whether a file, by its path in the context, is left out by a .dockerignore of *text*."""
    rules: list[tuple[bool, re.Pattern[str]]] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            pattern = re.escape(line.strip().removeprefix("!"))
            pattern = pattern.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
            rules.append((not line.startswith("!"), re.compile(pattern)))

    def is_left_out(path: str) -> bool:
        names = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
        # The last rule that matches the file or a directory above it counts.
        hits = [out for out, rule in rules if any(rule.fullmatch(name) for name in names)]
        return bool(hits) and hits[-1]

    return is_left_out


def _expand(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)


def _words(rest: str) -> list[str]:
    """Those of the form that starts no shell."""
    try:
        found: Any = json.loads(rest)
    except ValueError:
        raise DockerfileError(f"{rest}: needs a shell") from None
    return [str(word) for word in found]


def _copy_one(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
