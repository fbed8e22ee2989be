"""Probes of the nodes of a session's running jobs: at the first step and at the last, and a site's smoke test before.

They explain rows. No verdict rests on them, and a probe that fails, hangs or prints anything costs its row nothing.
"""

from __future__ import annotations

import shlex
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.model import EarlyStop, Job
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm.probing import LIMIT_S, Probe, probe_command, smoke_command
from pytest_gsw.jobs.states import JobStatus
from pytest_gsw.results.node_facts import NodeFacts, compare, finding_lines, smoke_findings

#: Most probes at once: each is an ``srun`` on the session's machine.
_AT_ONCE = 16
#: A row that is judged waits for its last probe so long, and all rows together, seconds.
_WAIT_S = 1.0
_ALL_WAIT_S = 10.0

_Slot = Literal["smoke", "first", "last"]


@dataclass
class _JobProbes:
    nodes: tuple[str, ...]
    #: ``None`` for a probe that waits for its turn.
    probes: dict[_Slot, Probe | None] = field(default_factory=dict)
    #: True once the findings of the smoke test are known.
    is_tested: bool = False

    def text(self, slot: _Slot) -> tuple[str, str]:
        """The output of a probe that has ended, and why facts are missing; nothing if it was never due."""
        if slot not in self.probes:
            return "", ""
        probe = self.probes[slot]
        if probe is None or not probe.result.done():
            return "", f"the probe at the {slot} step has not answered"
        found = probe.result.result()
        return found.text, found.problem


class NodeProbes:
    """The probes of a session.

    Args:
        cluster: Its keys ``facts`` and ``smoke`` say what is run.
        environ: The session's environment.
        version: Slurm's version.
        make_probe: Starts a probe; by default on this machine.
    """

    def __init__(
        self, cluster: Cluster, environ: Mapping[str, str], version: str, make_probe: Callable[..., Probe] = Probe
    ) -> None:
        self._make_probe = make_probe
        self._checks, self._environ, self._version = cluster.node_checks, environ, version
        self._kind: Any = None if self._checks.facts == "none" else self._checks.facts
        self._jobs: dict[str, _JobProbes] = {}
        self._waiting: deque[tuple[_JobProbes, _Slot, tuple[str, ...]]] = deque()
        self._running: list[Probe] = []
        #: Seconds that rows may still wait: probes may all hang.
        self._patience_s = _ALL_WAIT_S

    def look(self, job: Job, status: JobStatus, sample: Sample | None) -> EarlyStop | None:
        """Start the probes of a running job that are due; return why to end it, by the smoke test."""
        known = self._jobs.get(job.id)
        if known is None:
            nodes = expand(status.nodes)
            if not nodes:
                return None
            known = self._jobs[job.id] = _JobProbes(nodes)
        steps = sample.steps if sample is not None else 0
        if self._checks.smoke and not steps and "smoke" not in known.probes:
            words = shlex.split(self._checks.smoke)
            self._start(known, "smoke", smoke_command(job.id, len(known.nodes), words, cluster_of(job.spec)))
        elif self._kind is not None and steps:
            slot: _Slot = "first" if "first" not in known.probes else "last"
            if slot == "first" or (sample is not None and sample.finished and "last" not in known.probes):
                window_s = max(0.0, time.time() - (status.start_s or time.time()))
                command = probe_command(
                    job.id, len(known.nodes), self._kind, cluster_of(job.spec), window_s=window_s, version=self._version
                )
                self._start(known, slot, command)
        self._advance()
        return self._stop(job, known)

    def _start(self, job: _JobProbes, slot: _Slot, command: tuple[str, ...]) -> None:
        job.probes[slot] = None
        self._waiting.append((job, slot, command))

    def _advance(self) -> None:
        self._running = [probe for probe in self._running if not probe.result.done()]
        while self._waiting and len(self._running) < _AT_ONCE:
            job, slot, command = self._waiting.popleft()
            limit_s = self._checks.smoke_limit or LIMIT_S if slot == "smoke" else LIMIT_S
            probe = job.probes[slot] = self._make_probe(command, self._environ, len(job.nodes), limit_s)
            self._running.append(probe)

    def _stop(self, job: Job, known: _JobProbes) -> EarlyStop | None:
        probe = known.probes.get("smoke")
        if not self._checks.smoke_ends_job or known.is_tested or probe is None or not probe.result.done():
            return None
        known.is_tested = True
        found = smoke_findings(probe.result.result().text, known.nodes)
        if not found:
            return None
        told = "; ".join(text for _, text in finding_lines(found))
        return EarlyStop(
            f"the smoke test of job {job.id} shows nodes below their peers: {told}",
            "drain them, or leave smoke_ends_job out to let such jobs run",
        )

    def facts_of(self, *job_ids: str) -> NodeFacts | None:
        """The facts of all nodes of these jobs, compared with each other; ``None`` if nothing was to be read."""
        jobs = [self._jobs[job_id] for job_id in job_ids if job_id in self._jobs and self._jobs[job_id].probes]
        if not jobs:
            return None
        ends = [probe.result for job in jobs for probe in job.probes.values() if probe is not None]
        begun_s = time.monotonic()
        wait(ends, timeout=min(_WAIT_S, self._patience_s))
        self._patience_s = max(0.0, self._patience_s - (time.monotonic() - begun_s))
        nodes = tuple(dict.fromkeys(node for job in jobs for node in job.nodes))
        texts: dict[_Slot, tuple[str, list[str]]] = {}
        for slot in ("smoke", "first", "last"):
            read = [job.text(slot) for job in jobs]
            texts[slot] = "\n".join(text for text, _ in read), [why for _, why in read if why]
        problems = [why for _, whys in texts.values() for why in whys]
        answered = {line.partition("\t")[0] for line in texts["smoke"][0].splitlines()}
        tested = [node for job in jobs if "smoke" in job.probes for node in job.nodes]
        mute = compressed(node for node in tested if node not in answered)
        # Without a problem its command has ended, and failed: its exit code is not known.
        problems += [f"the smoke test printed nothing on {mute}"] if mute and not texts["smoke"][1] else []
        smoke = smoke_findings(texts["smoke"][0], nodes)
        if self._kind is None:
            return NodeFacts(problems=tuple(problems), findings=smoke) if smoke or problems else None
        facts = compare(texts["first"][0], texts["last"][0], nodes, problems)
        return replace(facts, findings=(*facts.findings, *smoke))

    def close(self) -> None:
        """End all probes that still run."""
        self._waiting.clear()
        for probe in self._running:
            probe.end()
