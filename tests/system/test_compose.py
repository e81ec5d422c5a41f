"""The containers of docker-compose.yml: what they share, and a session of their commands.

Docker is not needed: every service's command runs as a process here, with its volumes as folders
and its host name as a port of loopback.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.lab.common.ports import reserve
from tests.support import ROOT
from tests.support.commands import run_command
from tests.support.wait import LIMIT, until

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
MESH: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.mesh.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PARTIES = [name for name in SERVICES if name.startswith("party")]
RECIPIENTS = ["office", "depot"]
WRITERS = ["coordinator", *PARTIES, *RECIPIENTS]
"""Services that leave results on the host, each in its own folder."""

MEMBERS_MISSING = 20


def volumes(service: str, *, written: bool = False) -> dict[str, str]:
    """The volumes of a service, or only those that it can write, by their path inside."""
    parts = (volume.split(":") for volume in SERVICES[service]["volumes"])
    return {inside: name for name, inside, *how in parts if not (written and how == ["ro"])}


class Machine:
    """Runs services as processes, with everything in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.parties = PARTIES
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        first = reserve(2)  # a relay uses two ports
        self._hosts = dict.fromkeys(SERVICES, f"tcp://127.0.0.1:{first}")
        self._pages = {service: str(reserve(1)) for service in SERVICES}

    def place(self, service: str, inside: str) -> Path:
        return self._folder / volumes(service)[inside]

    def start(self, service: str, **settings: str) -> None:
        for inside in volumes(service):
            self.place(service, inside).mkdir(parents=True, exist_ok=True)
            link = self._root(service) / inside[1:]
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(self.place(service, inside))
        with self._log(service).open("ab") as log:
            self._processes[service] = subprocess.Popen(
                [word.replace("$$", "$") for word in SERVICES[service]["command"]],
                cwd=ROOT,
                env=self._environment(service, settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self, service: str, settings: dict[str, str]) -> dict[str, str]:
        """The service's environment in its container, with folders and ports of this machine."""
        environment = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}"}
        for key, value in SERVICES[service]["environment"].items():
            if value.startswith("/"):
                environment[key] = f"{self._root(service)}{value}"
                continue
            filled = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda m: settings.get(m[1], str(m[2])), value)
            environment[key] = re.sub(r"tcp://(\w+):\d+", lambda m: self._hosts[m[1]], filled)
        if "PARTIES" in environment:
            environment["PARTIES"] = " ".join(self.parties)
        return environment | {"PAGE": self._pages[service]}

    def _root(self, service: str) -> Path:
        """The root of the service's file system, as far as it has volumes."""
        return self._folder / "roots" / service

    def ask(self, service: str, what: str) -> str:
        """What the service answers to a health check or a monitor; empty if it does not."""
        command = ["scripts/compose", "ask", what]
        return run_command(command, environment=self._environment(service, {})).stdout

    def kill(self, service: str) -> None:
        """End a service and all that it has started, as if its machine had stopped."""
        process = self._processes[service]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait(self) -> dict[str, int]:
        """The exit codes of all services, once they have ended."""
        return {service: process.wait(LIMIT) for service, process in self._processes.items()}

    def start_all(self, **settings: str) -> None:
        self.start("folders", OWNER=f"{os.getuid()}:{os.getgid()}")
        assert self._processes["folders"].wait(LIMIT) == 0, self.logs()
        for service in ("coordinator", *self.parties, *RECIPIENTS):
            self.start(service, LIMIT=str(int(LIMIT)), **settings)

    def up(self, **settings: str) -> None:
        """Start every service; all must end by themselves with 0."""
        self.start_all(**settings)
        assert set(self.wait().values()) == {0}, self.logs()

    def stop(self) -> None:
        """End all that still runs; a service ends the processes that it has started."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def results(self) -> list[dict[str, Any]]:
        files = (self.place(party, "/results") / "result.json" for party in self.parties)
        return [json.loads(file.read_text()) for file in files]

    def settlement(self, recipient: str) -> dict[str, Any]:
        figures = self.place(recipient, "/results") / "settlement.json"
        return dict(json.loads(figures.read_text()))

    def logs(self) -> str:
        return "\n".join(f"== {s}\n{self._log(s).read_text()}" for s in self._processes)

    def _log(self, service: str) -> Path:
        return self._folder / f"{service}.log"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine on which nothing runs after the test."""
    machine = Machine(tmp_path)
    yield machine
    machine.stop()


@pytest.mark.timeout(900)
def test_the_services_finish_and_settle_an_exact_session(machine: Machine) -> None:
    """All end with 0 and leave everything on the host; started again, they repeat nothing.

    A party that is killed is missing for monitors, too, and resumes.
    A service with other settings reports the difference, and the agreement stays.
    """
    machine.start_all()
    last = PARTIES[-1]
    until((machine.place(last, f"/sent/{last}") / f"{last}.member.toml").exists, "its file is sent")
    machine.kill(last)
    for service in ("coordinator", PARTIES[0]):
        until(
            lambda name=service: (
                f'sotto_member_here{{member="{last}"}} 0'  # type: ignore[misc]
                in machine.ask(name, "metrics")
            ),
            "a monitor reads who is missing",
        )
        health = json.loads(machine.ask(service, "healthz"))
        assert (health["status"], health["over"]) == ("ok", False)
    machine.start(last, LIMIT=str(int(LIMIT)))
    assert machine.wait() == dict.fromkeys(SERVICES, 0), machine.logs()
    results = machine.results()
    assert len({result["head"] for result in results}) == 1
    assert {result["trade"]["obstacles"] == [] for result in results} == {True}
    paid, allowed = map(machine.settlement, RECIPIENTS)
    for party, result in zip(PARTIES, results, strict=True):
        assert abs(float(paid["payments"][party]) - result["private"]["payment"]) <= 0.01
        for resource, own in zip(result["resources"], result["private"]["quota"], strict=True):
            assert allowed["quotas"][resource][party] == pytest.approx(own, rel=1e-5)
    assert paid["balanced"]
    assert paid["quotas"] == allowed["payments"] == {}
    public = machine.place("coordinator", "/results")
    assert {file.name for file in public.iterdir()} == {
        *("agreement.toml", "session.transcript", "session.html")
    }
    for party in PARTIES:
        folder = machine.place(party, "/results")
        assert len(list(folder.glob("example-*.claim"))) == len(results[0]["resources"]) + 1
        assert {file.stat().st_mode & 0o077 for file in folder.iterdir()} == {0}
    machine.up(ROUNDS="9")
    assert machine.results() == results
    logs = machine.logs()
    assert "--rounds 9 is not what was agreed" in logs
    assert logs.count("all parties are done: the session is finished") == 2


@pytest.mark.timeout(900)
def test_the_services_settle_a_session_with_noise(machine: Machine) -> None:
    """With EPSILON the agreement has noise, and the settlement says what it could not check."""
    machine.parties = PARTIES[:3]  # as many as masks need
    machine.up(EPSILON="8", ROUNDS="4")
    assert {result["rounds"] for result in machine.results()} == {4}
    paid = machine.settlement("office")
    assert paid["balanced"]
    assert paid["unchecked"]
    agreement = (machine.place("coordinator", "/results") / "agreement.toml").read_text()
    assert 'mode = "private"' in agreement


def test_no_service_waits_forever(machine: Machine) -> None:
    """A coordinator without parties names the missing ones, and ends."""
    machine.start("coordinator", LIMIT="1")
    assert machine.wait() == {"coordinator": MEMBERS_MISSING}
    assert "party1.member.toml" in machine.logs()


def test_each_service_has_a_volume_that_no_other_can_see() -> None:
    """Private volumes and folders of results are mounted once. Those who receive claims, and the
    coordinator, see what parties send and cannot change it."""
    assert len(PARTIES) == 5
    sent = {party: f"sent{number}" for number, party in enumerate(PARTIES, 1)}
    sent |= {name: f"sent-{name}" for name in RECIPIENTS}
    for name, outgoing in sent.items():
        own = {"/private": name, "/results": f"./results/{name}", f"/sent/{name}": outgoing}
        assert volumes(name, written=True) == own
        seen = {**own, "/agreed": "agreed"}
        if name in RECIPIENTS:
            seen |= {f"/sent/{party}": sent[party] for party in PARTIES}
        assert volumes(name) == seen
    assert volumes("coordinator", written=True) == {
        "/private": "coordinator", "/agreed": "agreed", "/results": "./results/coordinator"
    }  # fmt: skip
    assert {f"/sent/{name}" for name in sent} <= volumes("coordinator").keys()


def test_folders_of_results_are_made_before_those_who_write_there_start(machine: Machine) -> None:
    """Docker would make missing ones for root. No result reaches the repository or the image."""
    machine.start("folders", OWNER=f"{os.getuid()}:{os.getgid()}")
    assert machine.wait() == {"folders": 0}, machine.logs()
    for service in WRITERS:
        assert machine.place(service, "/results").is_dir()
        needed = SERVICES[service]["depends_on"]
        assert needed == {"folders": {"condition": "service_completed_successfully"}}
    assert [name for name, service in SERVICES.items() if "build" in service] == ["folders"]
    assert "/results/" in (ROOT / ".gitignore").read_text().splitlines()
    assert not reaches(ROOT / "results" / "party1" / "result.json")


def test_only_the_service_that_makes_folders_has_rights_of_root() -> None:
    """It runs before all others, without a network and without anything of theirs."""
    privileged = [name for name in SERVICES if {"cap_add", "privileged"} & SERVICES[name].keys()]
    assert privileged == [name for name in SERVICES if SERVICES[name]["user"] == "root"]
    assert privileged == ["folders"]
    assert SERVICES["folders"]["network_mode"] == "none"
    assert volumes("folders") == {"/results": "./results"}
    assert {tuple(service["cap_drop"]) for service in SERVICES.values()} == {("ALL",)}


def test_through_the_relay_no_party_can_reach_another() -> None:
    """Each party shares a network only with the coordinator; only a mesh has one for all."""
    networks = [SERVICES[party]["networks"] for party in PARTIES]
    assert len({tuple(names) for names in networks}) == len(PARTIES)
    assert sorted(SERVICES["coordinator"]["networks"]) == sorted(
        n for names in networks for n in names
    )
    assert {service["networks"][0] for service in MESH["services"].values()} == {"mesh"}
    assert list(MESH["services"]) == ["coordinator", *PARTIES]
    for network in (*COMPOSE["networks"].values(), *MESH["networks"].values()):
        assert network == {"internal": True}
    assert {SERVICES[name]["network_mode"] for name in RECIPIENTS} == {"none"}


def test_every_party_runs_as_itself() -> None:
    """A party's command and address name that party, and all have the same list of parties."""
    for party in PARTIES:
        assert SERVICES[party]["command"] == ["scripts/compose", "party", party]
        assert SERVICES[party]["environment"]["ADDRESS"].startswith(f"tcp://{party}:")
    for name in RECIPIENTS:
        assert SERVICES[name]["command"] == ["scripts/compose", "settle", name]
    for name in WRITERS:
        assert SERVICES[name]["environment"]["PARTIES"].split() == PARTIES
    assert SERVICES["folders"]["environment"]["NAMES"].split() == WRITERS


def ignored() -> list[str]:
    """The rules of .dockerignore, in order."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def reaches(path: Path) -> bool:
    """Whether Docker sends a file to the builder: the last matching rule decides."""
    inside = path.relative_to(ROOT)
    places = [str(place) for place in (inside, *inside.parents[:-1])]
    sent = True
    for rule in ignored():
        pattern = rule.removeprefix("!")
        shapes = {pattern, pattern.removeprefix("**/")}
        if any(fnmatch(place, shape) for place in places for shape in shapes):
            sent = rule.startswith("!")
    return sent


def test_the_image_holds_no_results_and_no_tests() -> None:
    """No results, tests, keys, models or programs of developers reach the builder."""
    for folder in ("scripts/results", "scripts/lab/attack", "scripts/lab/release", "tests"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if reaches(path)]
    for name in ("acme.key", "scripts/acme.key", "party/model.npz", "acme.ledger-wal"):
        assert not reaches(ROOT / name)


def test_the_image_holds_all_that_its_commands_load() -> None:
    """Every module of this project that `scripts/compose` loads reaches the builder."""
    lines = [
        "import sys, scripts.lab.common.workspace, scripts.lab.common.instances",
        "import party.__main__, coordinator.__main__, party.claim_file, protocol.settle_command",
    ]
    lines += ["print(*(getattr(m, '__file__', None) or '' for m in sys.modules.values()))"]
    done = run_command([sys.executable, "-c", "\n".join(lines)], check=True)
    loaded = [Path(name) for name in done.stdout.split() if Path(name).is_relative_to(ROOT)]
    ours = [path for path in loaded if ".venv" not in path.parts]
    assert {path.relative_to(ROOT).parts[0] for path in ours} >= {"scripts", "party", "protocol"}
    for path in (*ours, ROOT / "scripts" / "compose"):
        assert reaches(path), path


def test_the_image_runs_without_root_and_gets_only_what_it_copies() -> None:
    """Its user is not root, and only what it copies reaches the builder."""
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    users = [words[1] for words in lines if words[:1] == ["USER"]]
    assert users
    assert users[-1] not in ("root", "0")
    copied = {
        name
        for words in lines
        if words[:1] == ["COPY"] and not words[1].startswith("--from")
        for name in words[1:-1]
    }
    assert ignored()[0] == "*"
    assert {rule[1:] for rule in ignored() if rule.startswith("!")} == copied


def test_the_image_keeps_nothing_that_installs_packages(tmp_path: Path) -> None:
    """The base image has pip, setuptools and wheel. Not even a name that a scanner reads stays."""
    library = tmp_path / "usr/local/lib/python3.11"
    programs = tmp_path / "usr/local/bin"
    for name in ("ensurepip", "json", *(f"site-packages/{part}" for part in (
        "pip", "pip-24.0.dist-info", "setuptools", "setuptools-65.5.1.dist-info", "pkg_resources",
        "_distutils_hack", "wheel", "wheel-0.45.1.dist-info",
    ))):  # fmt: skip
        (library / name).mkdir(parents=True)
    programs.mkdir()
    for path in (library / "site-packages/distutils-precedence.pth", programs / "pip3.11",
                 programs / "pip", programs / "wheel", programs / "python3.11"):  # fmt: skip
        path.touch()
    text = (ROOT / "Dockerfile").read_text()
    (command,) = re.findall(r"^RUN (find / -xdev(?:.*\\\n)*.*)$", text, re.MULTILINE)
    command = command.replace(" /usr/", f" {tmp_path}/usr/").replace("find / ", f"find {tmp_path} ")
    subprocess.run(["sh", "-ec", command], check=True)
    assert {path.name for path in library.rglob("*")} == {"json", "site-packages"}
    assert [path.name for path in programs.iterdir()] == ["python3.11"]
