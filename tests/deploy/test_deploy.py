"""The files for deployment: each is parsed by the program that reads it, where it is installed.

There is no container engine in the tests, so images are not built.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict

from rqueue import Queue
from rqueue.artifacts.place import Directory, place_of
from rqueue.cli.main import cli
from rqueue.cli.options import address
from rqueue.cli.session import VARIABLE
from rqueue.clock import SYSTEM
from rqueue.doctor import judge_server, read_server
from rqueue.finding import Level
from rqueue.metrics.catalogue import CATALOGUE
from rqueue.process.http_listener import Address
from rqueue.settings.load import Settings, variable_of
from tests import servers
from tests.postgres import Database
from tests.servers import Server

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/rqueue.rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
OURS = ("migrate", "worker-1", "worker-2", "scheduler")
SERVING = ("worker-1", "worker-2", "scheduler")
# Variables besides settings: which application workers run, and those of PostgreSQL's client
# library.
OWN = {VARIABLE, "RQUEUE_APP", "PGPASSWORD"}


def known_words(words: list[str]) -> bool:
    """Whether the command and every option exist; --help keeps the command from running."""
    found = CliRunner().invoke(cli, [*words, "--help"])
    assert found.exit_code == 0, found.output
    return True


def option_of(words: list[str], option: str) -> Address:
    """The address of an option, as the command parses it."""
    return address(words[words.index(option) + 1])


def is_known(variable: str) -> bool:
    return variable in {variable_of(field) for field in Settings.model_fields} | OWN


def test_compose_has_the_whole_fleet() -> None:
    services = COMPOSE["services"]

    assert {"redis", "postgres", *OURS} == set(services)
    assert {"redis-data", "postgres-data", "artifacts"} == set(COMPOSE["volumes"])
    for name in ("redis", "postgres"):
        assert services[name]["healthcheck"]["test"]
        assert ":" in services[name]["image"], "a version is named"
    for name in OURS:
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["read_only"] is True
    for name in SERVING:
        assert services[name]["depends_on"]["migrate"]["condition"].startswith("service_completed")


@pytest.mark.parametrize("name", OURS)
def test_compose_uses_existing_commands_options_and_settings(name: str) -> None:
    service = COMPOSE["services"][name]

    assert known_words(service["command"])
    assert all(map(is_known, service["environment"]))


@pytest.mark.parametrize("name", OURS)
def test_the_archive_of_compose_accepts_any_password(name: str) -> None:
    theirs = COMPOSE["services"]["postgres"]["environment"]
    ours = COMPOSE["services"][name]["environment"]

    parts = conninfo_to_dict(ours[variable_of("postgres_url")])

    assert parts == {
        "user": theirs["POSTGRES_USER"], "host": "postgres", "port": "5432",
        "dbname": theirs["POSTGRES_DB"],
    }  # fmt: skip
    assert ours["PGPASSWORD"] == theirs["POSTGRES_PASSWORD"]


def test_prometheus_scrapes_the_ports_of_compose() -> None:
    scrape = yaml.safe_load((ROOT / "deploy/prometheus/scrape.yml").read_text())
    (scraped,) = scrape["scrape_configs"]
    asked = [place for group in scraped["static_configs"] for place in group["targets"]]

    listening = {
        name: option_of(COMPOSE["services"][name]["command"], "--metrics-port") for name in SERVING
    }

    assert sorted(asked) == sorted(f"{name}:{at.port}" for name, at in listening.items())
    for name in SERVING:
        for option in ("--metrics-port", "--health-port"):
            host = option_of(COMPOSE["services"][name]["command"], option).host
            assert not ip_address(host).is_loopback, (name, option)
        assert "ports" not in COMPOSE["services"][name], "what anybody may ask is not published"


def test_alert_rules_use_existing_metrics_and_describe_an_action() -> None:
    named = {rule["record"] for rule in RULES if "record" in rule}

    for rule in RULES:
        # Expressions also contain labels, their values, and suffixes of histograms.
        words = re.sub(r'by \([^)]*\)|"[^"]*"|_bucket\b', "", rule["expr"])
        asked = set(re.findall(r"\b(?:rqueue|tasks?|agent)_\w+", words))
        assert asked or named & set(re.findall(r"rqueue:[\w:]+", words)), rule
        assert asked <= CATALOGUE.keys(), rule
        assert "record" in rule or rule["annotations"].keys() == {"summary", "description"}


def test_a_slow_archive_raises_an_alert_before_tasks_are_refused() -> None:
    alerts = {rule["expr"]: rule["labels"]["severity"] for rule in RULES if "alert" in rule}
    nearly = Settings.model_fields["max_outbox"].default * 4 // 5

    assert alerts["max by (queue) (rqueue_outbox_age_seconds) > 300"] == "warning"
    assert alerts[f"max by (queue) (rqueue_outbox_entries) > {nearly}"] == "critical"


@pytest.mark.parametrize("name", OURS)
def test_all_processes_can_write_the_directory_of_artifacts(name: str) -> None:
    service = COMPOSE["services"][name]
    text = (ROOT / "deploy/Dockerfile").read_text()

    place = place_of(service["environment"][variable_of("artifacts_url")])

    assert isinstance(place, Directory)
    assert service["volumes"] == [f"artifacts:{place.path}"]
    assert "user" not in service
    # A new volume takes its owner from the directory in the image.
    assert f"install --directory --owner=10001 --mode=0700 {place.path}" in text


def test_compose_mounts_existing_files() -> None:
    mounts = [
        volume.split(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]

    assert mounts
    assert all((ROOT / mount).is_file() for mount in mounts)


def test_the_image_copies_existing_files_and_runs_without_privileges() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    sources = [word for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
               for word in line.split()]  # fmt: skip
    built, installed = (set(found.split(",")) for found in re.findall(r"\[([a-z,]+)\]\"", text))
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored
    assert built == installed == {"archive", "artifacts", "notices", "validation"}
    assert built <= set(project["optional-dependencies"])
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1] == "10001"


def test_the_application_has_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQUEUE_REDIS_URL", "redis://nowhere")

    found = runpy.run_path(str(ROOT / "deploy/app/shop.py"))

    queue = found["queue"]
    assert isinstance(queue, Queue)
    assert list(queue._internals.registry.handlers) == ["charge"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_an_existing_command_with_known_variables(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    (start,) = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")]
    facts = (ROOT / "deploy/systemd/rqueue.env").read_text().splitlines()
    names = [line.partition("=")[0] for line in facts if line and not line.startswith("#")]

    program, *words = shlex.split(start)

    assert Path(program).name == "rqueue"
    assert known_words(words)
    assert all(map(is_known, names))
    assert all(name in names for name in re.findall(r"\$\{(\w+)\}", start))
    assert "NoNewPrivileges=yes" in lines


@pytest.fixture(params=["valkey", "redis7"])
def configured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server with this file; only its address and data folder are the test's."""
    lines = (ROOT / "deploy/redis/redis.conf").read_text().splitlines()
    settings = [shlex.split(line) for line in lines if line and not line.startswith("#")]
    options = [word for name, *values in settings if name not in ("bind", "dir")
               for word in (f"--{name}", *values)]  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="rqueue-deploy-"))
    server = servers.start(request.param, folder, *options)
    yield server
    server.stop()
    shutil.rmtree(folder)


async def test_redis_accepts_its_file_and_the_doctor_accepts_redis(configured: Server) -> None:
    async with Queue("shop", url=configured.url) as queue:
        found = judge_server(await read_server(queue._internals.shard, SYSTEM))

    assert {finding.level for finding in found} == {Level.OK}


def test_postgres_accepts_its_file(own_pg: Database) -> None:
    text = (ROOT / "deploy/postgres/postgresql.conf").read_text()
    options = {
        name.strip(): value.strip(" '")
        for name, _, value in (line.partition("=") for line in text.splitlines())
        if value and not name.startswith("#")
    }
    here = {"listen_addresses": "", "shared_buffers": "16MB"}

    own_pg.restart(**{**options, **here})

    for name, value in {**options, **here}.items():
        ((found,),) = own_pg.psql("SELECT current_setting(%s)", name)
        assert str(found).lower() in {value.lower(), f"{value}ms", "1min", "2s"}, name
