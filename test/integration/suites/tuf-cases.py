"""Plugin of pytest for TUF's conformance suite: what Stemma's subset of TUF needs of the suite's repository, and one
line of JSON for each case. The suite itself stays as it is."""

import hashlib
import json
import os

from tuf.api.metadata import Targets
from tuf_conformance._internal.repository_simulator import RepositorySimulator
from tuf_conformance._internal.simulator_server import SimulatorServer

# Stemma knows keys of one type. Cases about other types name theirs.
RepositorySimulator.new_signer.__defaults__ = ("ed25519", "ed25519")

publish = RepositorySimulator.publish


def publish_releases(repository, roles, *more, **options):
    """As the suite publishes; each target is a release, so it names a version."""
    roles = list(roles)
    for role in roles:
        signed = repository.mds[role].signed if role in repository.mds else None
        if isinstance(signed, Targets):
            for path, target in signed.targets.items():
                version = hashlib.sha256(path.encode()).hexdigest()
                target.unrecognized_fields.setdefault("custom", {"versionId": version})
    publish(repository, roles, *more, **options)


RepositorySimulator.publish = publish_releases

start_server = SimulatorServer.__init__


def start_patient_server(server, *arguments):
    """The suite asks for requests without pause while a client runs, which takes a core that the client needs."""
    start_server(server, *arguments)
    server.timeout = 0.01


SimulatorServer.__init__ = start_patient_server

outcomes = {}


def pytest_runtest_logreport(report):
    case = report.nodeid.removeprefix("tuf_conformance/")
    known = outcomes.setdefault(case, {"case": case, "outcome": "passed", "why": ""})
    if report.outcome != "passed" and known["outcome"] == "passed":
        known["outcome"] = report.outcome
        known["why"] = (str(report.longrepr) + "\n" + report.capstderr)[-2000:]


def pytest_sessionfinish():
    with open(os.environ["SUITE_CASES"], "w") as file:
        for known in outcomes.values():
            file.write(json.dumps(known) + "\n")
