"""The TypeScript client: its own tests under node's runner, against the real service and against Python's answers."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from scripts.client import CLIENT, npm, pack
from tests.clients import fixtures
from tests.clients.node import demand_client, node_tests
from tests.serving.service.harness import inline

from quietshelf import __version__

CASES = 2800


def test_typescript_client_works_with_the_real_service(tmp_path: Path) -> None:
    """Every verb, streams and refusals, under the admin key of a service that is started here."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as service:
        key = service.headers["Authorization"].partition(" ")[2]
        node_tests("service", SERVICE_URL=str(service.base_url).rstrip("/"), SERVICE_KEY=key)


def test_typescript_decides_and_contributes_as_python_does(tmp_path: Path) -> None:
    """Sets that are chosen, contributions on the grid, and coins: thousands of cases, ties and extremes among them."""
    demand_client()
    path = tmp_path / "fixtures.json"
    fixtures.main(path, CASES)
    node_tests("fixtures", FIXTURES=str(path))


def test_package_holds_the_client_and_nothing_else(tmp_path: Path) -> None:
    """Code, types, licence and description; no tests, no sources, no settings of this machine."""
    demand_client()
    with tarfile.open(pack(tmp_path)) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    made = {path.relative_to(CLIENT / "src").as_posix()[:-3] for path in CLIENT.glob("src/**/*.ts")}
    assert names == {"package.json", "README.md", "LICENSE"} | {f"dist/{n}.{e}" for n in made for e in ("js", "d.ts")}


def test_package_is_told_of_the_same_version_and_of_no_machine() -> None:
    """One version for both languages; the lock names no registry, and there is nothing to install with the client."""
    package, lock = (json.loads((CLIENT / name).read_text()) for name in ("package.json", "package-lock.json"))
    assert package["version"] == lock["version"] == __version__
    assert "dependencies" not in package
    assert not any("resolved" in each for each in lock["packages"].values())
    assert all("integrity" in each for name, each in lock["packages"].items() if name)


@pytest.mark.parametrize("module", ["index", "device/index", "tickets"])
def test_client_needs_nothing_of_node(module: str) -> None:
    """Every import leads to a file of its own: browsers load it as it is."""
    demand_client()
    seen, waiting = set(), [CLIENT / "dist" / f"{module}.js"]
    while waiting:
        path = waiting.pop().resolve()
        if path in seen:
            continue
        seen.add(path)
        code = path.read_text(encoding="utf-8")
        assert "process." not in code
        told = re.findall(r'(?m)^(?:import|export)[^;"]* from "([^"]*)";$', code)
        assert len(told) == code.count(' from "') + code.count("import(")
        assert all(each.startswith(".") for each in told), told
        waiting += [path.parent / each for each in told]


def test_package_installs_and_its_types_are_complete_for_a_strict_consumer(tmp_path: Path) -> None:
    """In an empty project, without a network; programs in strict TypeScript are checked, those of its README too."""
    program = demand_client()
    (tmp_path / "package.json").write_text('{"type": "module"}')
    npm("install", "--offline", str(pack(tmp_path)), cwd=tmp_path)
    told = re.findall(r"(?ms)^```ts\n(.*?)^```$", (CLIENT / "README.md").read_text(encoding="utf-8"))
    assert len(told) == 3
    names = [f"shop{place}.ts" for place in range(1 + len(told))]
    for name, code in zip(names, [CONSUMER, *told], strict=True):
        (tmp_path / name).write_text(code)
    check = [program, str(CLIENT / "node_modules" / "typescript" / "bin" / "tsc"), "--strict", "--noEmit", "--module"]
    options = ["nodenext", "--target", "es2022", "--exactOptionalPropertyTypes", "--types", "node", "--typeRoots"]
    roots = str(CLIENT / "node_modules" / "@types")
    done = subprocess.run([*check, *options, roots, *names], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


CONSUMER = """
import { Client, Refused, type Offer } from "@quietshelf/client";
import { DeviceShelf } from "@quietshelf/client/device";
import { signTicket } from "@quietshelf/client/tickets";
export async function visit(): Promise<string | null> {
  const offer: Offer = await new Client("https://shelf.example", "qs_a_b").offer("teas", [1], { person: "anna" });
  const first: string | undefined = offer.items[0];
  // @ts-expect-error a number is no list of features
  await new Client("https://shelf.example", "qs_a_b").offer("teas", 1);
  const ticket: string = await signTicket("qs_a_b", { shelf: "teas" });
  const shelf = new DeviceShelf("https://shelf.example", "teas", { ticket: () => ticket, signingKey: null });
  const made = await shelf.offer([1]);
  await made.choose(first ?? null).catch((error: unknown) => { if (!(error instanceof Refused)) throw error; });
  return made.id;
}
"""
