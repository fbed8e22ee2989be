"""Facts of a job's nodes, read once or twice while it ran: which node or GPU differs from its peers, and in what.

Peers decide, not limits. Facts explain a row and never decide it. The readings are output of other programs on many
nodes: lines that are no known fact of a known node are passed over, and ``N/A`` is unknown, never 0.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import by_number, named, one_line, plural, shortened

# -- the facts that a probe prints, by their names -------------------------------------------------


def _labels(text: str) -> dict[str, str]:
    """Names with their labels: ``name=label``."""
    pairs = (pair.partition("=") for pair in text.split())
    return {name: label.replace("_", " ") for name, _, label in pairs}


#: Momentary values of which less is worse, with their units. Those of the first list fall on an idle GPU, too.
_RESTING = _labels(
    "clocks.current.sm=SM_clock|MHz clocks.current.memory=memory_clock|MHz pcie.link.gen.current=PCIe_generation"
    " gfx_0.clk=GPU_clock|MHz mem_0.clk=memory_clock|MHz pcie.speed=PCIe_speed|GT/s"
    " sclk_clock_speed=GPU_clock|MHz mclk_clock_speed=memory_clock|MHz"
)
_GAUGES = _RESTING | _labels(
    "clocks.max.sm=highest_SM_clock|MHz enforced.power.limit=power_limit|W limit.socket_power=power_limit|W"
    " Max_Graphics_Package_Power_(W)=power_limit|W pcie.link.width.current=PCIe_lanes pcie.width=PCIe_lanes"
    " rate=rate|Gb/s memory_kb=memory|kB"
)
_LIMITS = {"clocks.current.sm": "clocks.max.sm", "gfx_0.clk": "gfx_0.max_clk"}

#: Time in a state that is not normal, in microseconds or in units of AMD's own counter. The power cap is normal.
_DURATIONS = {
    "us.SW Thermal Slowdown": "SW thermal slowdown",
    "us.HW Thermal Slowdown": "HW thermal slowdown",
    "us.HW Power Braking": "HW power brake",
    **_labels(
        "throttle.prochot_accumulated=processor_hot throttle.socket_thermal_accumulated=socket_thermal_slowdown"
        " throttle.vr_thermal_accumulated=voltage_regulator_thermal_slowdown"
        " throttle.hbm_thermal_accumulated=HBM_thermal_slowdown"
    ),
}
_AMD_TIME = "throttle.accumulation_counter"
_TEMPERATURES = ("temperature.gpu", "temperature.hotspot", "Temperature_(Sensor_junction)_(C)")

#: Names of NVIDIA's mask of reasons for the current clock; the first of a newer driver.
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_IDLE, _POWER_CAP, _HW_SLOWDOWN, _HW_PARTS = 0x1, 0x4, 0x8, 0xC0
#: Further bits of it. HW slowdown is set with its parts, the two after it.
_BITS = {_HW_SLOWDOWN: "HW slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake", 0x20: "SW thermal slowdown"}
_BITS |= {0x2: "application clocks", 0x10: "sync boost", 0x100: "display clocks"}

#: Lines of the kernel log during the job, and errors that grow. Of the first ones, one is named by itself.
_GRAVE_LOG = _labels(
    "log.xid=Xid log.nvlink=NVLink_errors log.memory=memory_errors log.oom=out_of_memory"
    " log.thermal=CPU_thermal_events log.stuck=stuck_tasks"
)
_LOG = _GRAVE_LOG | _labels("log.pcie=PCIe_errors log.mlx5=mlx5_errors log.amdgpu=amdgpu_errors")
_GRAVE = _GRAVE_LOG | _labels(
    "ecc.errors.uncorrected.volatile.total=uncorrected_ECC_errors ecc.total_uncorrectable_count=uncorrected_ECC_errors"
    " remapped_rows.uncorrectable=remapped_rows_(uncorrectable) remapped_rows.correctable=remapped_rows_(correctable)"
    " retired_pages.double_bit.count=retired_pages link_downed=link_failures link_error_recovery=link_recoveries"
)
_COUNTS = _GRAVE | _LOG
_COUNTS |= _labels(
    "ecc.errors.corrected.volatile.total=corrected_ECC_errors ecc.total_correctable_count=corrected_ECC_errors"
    " pcie.replay_count=PCIe_replays symbol_error=symbol_errors local_link_integrity_errors=link_integrity_errors"
    " excessive_buffer_overrun_errors=buffer_overruns port_rcv_errors=receive_errors"
    " port_xmit_discards=discarded_packets out_of_sequence=packets_out_of_sequence rnr_nak_retry_err=RNR_NAK_retries"
    " packet_seq_err=packet_sequence_errors local_ack_timeout_err=ACK_timeouts rx_icrc_encapsulated=CRC_errors"
    " rx_errors=receive_errors tx_errors=transmit_errors rx_dropped=dropped_packets_received"
    " tx_dropped=dropped_packets_sent"
)

_VERSIONS = _labels(
    "kernel=kernel governor=governor GPUs=GPUs firmware=firmware board=board state=state cuda=CUDA name=GPU"
    " kernel_options=kernel_options vm/nr_hugepages=hugepages kernel/numa_balancing=NUMA_balancing"
    " transparent_hugepages=transparent_hugepages class/dmi/id/bios_version=BIOS class/dmi/id/product_name=product"
    " devices/system/cpu/cpu0/microcode/version=microcode devices/system/cpu/online=CPUs"
    " module/nvidia/version=nvidia_module module/amdgpu/version=amdgpu_module module/mlx5_core/version=mlx5_module"
    " driver_version=driver driver.version=driver Driver_version=driver"
    " vbios_version=VBIOS vbios.version=VBIOS VBIOS_version=VBIOS"
    " remapped_rows.pending=row_remapping_pending remapped_rows.failure=row_remapping_failed"
    " retired_pages.pending=page_retirement_pending"
)
_OTHERS = {
    "begin",
    "end",
    "pci.bus_id",
    "gfx_0.max_clk",
    _AMD_TIME,
    *_REASONS,
    *_TEMPERATURES,
    *(f"last{name[3:]}" for name in _LOG),
}
_KNOWN = frozenset({*_GAUGES, *_DURATIONS, *_COUNTS, *_VERSIONS, *_OTHERS})

_UNIT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}(?:/[0-9]{1,3})?")
_GPU = re.compile(r"gpu[0-9]{1,3}")
_NUMBER = re.compile(r"\(?([0-9]{1,18}(?:\.[0-9]{1,9})?)(?![0-9.])")
_MASK = re.compile(r"0x[0-9A-Fa-f]{1,16}")
#: NVIDIA's words in brackets, ``[Unknown Error]``, and those of other tools.
_UNKNOWN = re.compile(r"\[.*|N/?A|ERR!?|unknown|unsupported|not supported|none|", re.IGNORECASE)
_PCI = re.compile(r"PCI:([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})", re.IGNORECASE)

#: Most units of a node, letters of a value, and, in a record, values of a version, findings and problems.
_MOST_UNITS, _LONGEST, _MOST_VALUES, _MOST_FINDINGS, _MOST_PROBLEMS = 96, 120, 8, 40, 8
#: Fewest values of which one can be odd, and the share that is a majority.
_FEWEST, _MAJORITY = 4, 2 / 3
#: Standard deviations beyond which a value is odd; 1.4826 median deviations are one. Few peers estimate it badly: with
#: the second number, of 200 quiet jobs of 8 to 2,048 normal values less than one has an odd one.
_SIGMAS, _FEW = 6.0, 10
_MAD = 1.4826
#: Least difference in the share of a duration, percent, and in a gauge and in a host's memory, fractions.
_SHARE, _LOSS, _LOSS_OF_MEMORY = 5.0, 0.05, 0.01
#: Errors are odd if they are so many times those of all but a fifth of the peers, and one more.
_TIMES, _QUIET = 10, 0.8
#: The weight of grave errors over others.
_GRAVE_WEIGHT = 1e18


# -- what is kept ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """A fact in which a node, or a unit of it, differs from its peers."""

    #: ``why``, ``differs``, ``errors`` or ``smoke``.
    kind: str
    #: The node; for ``differs``, all nodes with this value, or none if no value has a majority.
    node: str
    #: ``gpu5``, ``gpu[0-7]``, ``mlx5_3/1``; empty for the host.
    unit: str
    #: The fact in words.
    name: str
    #: The number, the worst of several units; ``None`` if the fact is none.
    value: float | None = None
    #: The value, if it is no number, or the last line of the kernel log.
    text: str = ""
    #: The unit of the number: ``MHz``, ``%``.
    scale: str = ""
    #: The upper limit of a clock.
    limit: float | None = None
    #: Number of the peers, and their median, least and highest number.
    peers: int = 0
    median: float | None = None
    least: float | None = None
    most: float | None = None
    #: The value of most peers, if it is no number.
    usual: str = ""
    #: By which findings of a kind are ranked.
    weight: float = 0.0


@dataclass(frozen=True)
class NodeFacts:
    """The readings of a job's nodes: what was compared, what was not, and what differs."""

    #: Readings in which a node answered: 0, 1 or 2.
    readings: int = 0
    #: Numbers of nodes and GPUs, and of the counters and versions that were compared.
    nodes: int = 0
    gpus: int = 0
    counters: int = 0
    version_names: int = 0
    #: Nodes that did not answer, answered twice, or whose output has no end. The first two are not compared.
    silent: str = ""
    twice: str = ""
    cut: str = ""
    #: Fields that the driver does not have, and further reasons for missing facts.
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    #: By name, the nodes with each value.
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    #: Number of findings beyond these.
    more: int = 0

    def of_nodes(self, nodes: Collection[str]) -> NodeFacts:
        """The same with the findings of these nodes alone."""
        findings = [one for one in self.findings if one.node and not set(expand(one.node)).isdisjoint(nodes)]
        return replace(self, findings=tuple(findings), more=0)


# -- reading ---------------------------------------------------------------------------------------

#: A unit of a node.
_Place = tuple[str, str]


class _Reading:
    """The known facts in the output of a probe, by place and name."""

    def __init__(self, text: str, nodes: frozenset[str]) -> None:
        self.facts: defaultdict[_Place, dict[str, str]] = defaultdict(dict)
        self.unknown: set[str] = set()
        self.problems: defaultdict[str, set[str]] = defaultdict(set)
        begins, units = Counter[str](), Counter[str]()
        for line in text.split("\n"):
            node, unit, name, value, *_ = *line.split("\t", 3), "", "", ""
            if node not in nodes or not value:
                continue
            value = _clean(value)
            begins[node] += name == "begin"
            if name == "unknown" and value in _KNOWN:
                self.unknown.add(value)
            elif name == "problem" and (value in self.problems or len(self.problems) < _MOST_PROBLEMS):
                self.problems[value].add(node)
            elif name in _KNOWN and not _UNKNOWN.fullmatch(value):
                if (node, unit) not in self.facts:
                    if units[node] >= _MOST_UNITS or not _UNIT.fullmatch(unit):
                        continue
                    units[node] += 1
                self.facts[node, unit].setdefault(name, value)
        self.nodes = {node for node, _ in self.facts}
        self.twice = {node for node in self.nodes if begins[node] > 1}
        self.gpus = [place for place in self.facts if _GPU.fullmatch(place[1])]
        of_node = Counter(node for node, _ in self.gpus)
        for node in self.nodes if self.gpus else ():
            self.facts[node, "host"]["GPUs"] = str(of_node[node])

    def number(self, place: _Place, name: str) -> float | None:
        """A fact as a number; ``None`` if unknown."""
        match = _NUMBER.match(self.facts.get(place, {}).get(name, ""))
        return None if match is None else float(match[1])

    def reasons(self, place: _Place) -> int | None:
        """NVIDIA's mask of reasons for the current clock; ``None`` if unknown."""
        facts = self.facts.get(place, {})
        text = next((facts[name] for name in _REASONS if name in facts), "")
        return int(text, 16) if _MASK.fullmatch(text) else None


def _clean(text: str) -> str:
    return shortened(one_line(printable(text[: 4 * _LONGEST])), _LONGEST)


def compare(first: str, last: str, nodes: Sequence[str], problems: Iterable[str] = ()) -> NodeFacts:
    """Compare the nodes of a job with each other.

    Args:
        first: Output of the probe at the job's first step; empty if there is none.
        last: Output of the probe at its last step; empty if there is none.
        nodes: The job's nodes.
        problems: Reasons why a reading is missing or incomplete, each in one line.
    """
    known = frozenset(nodes)
    readings = [_Reading(text, known) for text in (first, last)]
    # A job that ends has the last reading of some of its nodes alone.
    answers = max(len(reading.nodes) for reading in readings)
    readings = [reading for reading in readings if reading.nodes and 2 * len(reading.nodes) >= answers]
    why = dict.fromkeys(_clean(problem) for problem in problems if problem)
    if not readings:
        return NodeFacts(silent=compressed(nodes), problems=tuple(why)[:_MOST_PROBLEMS])
    now, twice = readings[-1], {node for reading in readings for node in reading.twice}
    for reading in readings:
        for place in [place for place in reading.facts if place[0] in twice]:
            del reading.facts[place]
    comparison = _Comparison(readings)
    versions, findings = comparison.compare_versions(), comparison.compare()
    is_mask_known = any(now.reasons(place) is not None for place in now.gpus)
    return NodeFacts(
        readings=len(readings),
        nodes=len(now.nodes - twice),
        gpus=sum(node not in twice for node, _ in now.gpus),
        counters=len(comparison.counters),
        version_names=len(versions),
        silent=compressed(known - now.nodes),
        twice=compressed(twice),
        cut=compressed(node for node in now.nodes - twice if "end" not in now.facts.get((node, "host"), ())),
        unknown=tuple(sorted(now.unknown.difference(_REASONS if is_mask_known else ()))),
        problems=(*why, *(f"{compressed(of)}: {text}" for text, of in now.problems.items()))[:_MOST_PROBLEMS],
        versions=versions,
        findings=findings[:_MOST_FINDINGS],
        more=max(0, len(findings) - _MOST_FINDINGS),
    )


# -- peers -----------------------------------------------------------------------------------------


def _odd(values: Mapping[_Place, float], floor: Callable[[float], float], *, low: bool) -> list[_Place]:
    """The values that are beyond their peers in the harmful direction; none of fewer than four.

    Args:
        values: All values, of the same kind.
        floor: The least difference from a median that counts.
        low: True if less is worse.
    """
    if len(values) < _FEWEST:
        return []
    median = statistics.median(values.values())
    sigma = _MAD * statistics.median(abs(value - median) for value in values.values())
    limit = max(floor(median), _SIGMAS * (1 + _FEW / len(values)) * sigma)
    return [place for place, value in values.items() if (median - value if low else value - median) > limit]


def _odd_counts(values: Mapping[_Place, float], *, is_grave: bool) -> list[_Place]:
    """Counts that are many times those of nearly all peers; of grave ones, one is enough and needs no peers."""
    *ordered, _ = sorted(values.values())
    quiet = ordered[int(_QUIET * (len(ordered) - 1))] if ordered else 0.0
    limit = _TIMES * (quiet if is_grave else quiet + 1)
    return [place for place, value in values.items() if value > limit] if is_grave or len(values) >= _FEWEST else []


def _found(
    kind: str, place: _Place, name: str, values: Mapping[_Place, float], weight: float | None = None, **more: Any
) -> Finding:
    """A number among those of its peers; its weight is by default its distance from them."""
    others = [value for other, value in values.items() if other != place] or [0.0]
    value, median = values[place], statistics.median(others)
    weight = abs(value - median) / (median or 1) if weight is None else weight
    more |= {"peers": len(values) - 1, "median": median, "least": min(others), "most": max(others)}
    return Finding(kind, place[0], place[1].removeprefix("host"), name, value, weight=weight, **more)


class _Comparison:
    """Findings of one or two readings."""

    def __init__(self, readings: Sequence[_Reading]) -> None:
        self._first, self._now = (readings[0] if len(readings) > 1 else None), readings[-1]
        #: Names of the numbers that were compared.
        self.counters: set[str] = set()

    def compare(self) -> tuple[Finding, ...]:
        """All findings, the gravest of each kind first."""
        return _ranked([*self._durations(), *self._gauges(), *self._errors(), *self._differences])

    def _peers(self, name: str, number: Callable[[_Place, str], float | None]) -> list[dict[_Place, float]]:
        """The known numbers of a fact, apart for each set of peers: all GPUs, or the same unit of all nodes."""
        sets: defaultdict[str, dict[_Place, float]] = defaultdict(dict)
        for place, facts in self._now.facts.items():
            value = number(place, name) if name in facts else None
            if value is not None:
                sets["gpu" if _GPU.fullmatch(place[1]) else place[1]][place] = value
        self.counters.update([name] if sets else ())
        return list(sets.values())

    def _growth(self, place: _Place, name: str) -> float | None:
        """The growth of a counter between the readings; ``None`` if unknown, as after a restart."""
        if self._first is None:
            return None
        times = [reading.number((place[0], "host"), "begin") or 0.0 for reading in (self._first, self._now)]
        begin, end = self._first.number(place, name), self._now.number(place, name)
        return None if begin is None or end is None or end < begin or times[0] >= times[1] else end - begin

    def _percent(self, place: _Place, name: str) -> float | None:
        """The share of a duration in the time between the readings, percent."""
        growth = self._growth(place, name)
        is_amd = name.startswith("throttle.")
        whole = self._growth(place, _AMD_TIME) if is_amd else self._growth((place[0], "host"), "begin")
        return None if growth is None or not whole else min(100.0, 100 * growth / whole / (1 if is_amd else 1e6))

    def _durations(self) -> Iterator[Finding]:
        """Times in a state of throttling, and the temperature if that is odd as well."""
        temperatures = [values for name in _TEMPERATURES for values in self._peers(name, self._now.number)]
        hot = {place: values for values in temperatures for place in _odd(values, lambda _: 0, low=False)}
        for name, label in _DURATIONS.items():
            for values in self._peers(name, self._percent):
                for place in _odd(values, lambda _: _SHARE, low=False):
                    yield _found("why", place, label, values, 10 + values[place], scale="% of the run")
                    if place in hot and "thermal" in label:
                        yield _found("why", place, "temperature", hot[place], 0.0, scale="°C")

    def _low(self, reading: _Reading, name: str) -> dict[_Place, dict[_Place, float]]:
        """Units whose gauge is low, with all values of the peers; an idle GPU rests."""
        loss, low = (_LOSS_OF_MEMORY if name == "memory_kb" else _LOSS), {}
        for values in self._peers(name, reading.number):
            resting = [at for at in values if name in _RESTING and (reading.reasons(at) or 0) & _IDLE]
            busy = {at: value for at, value in values.items() if at not in resting}
            low.update(dict.fromkeys(_odd(busy, lambda median: loss * median, low=True), busy))
        return low

    def _gauges(self) -> Iterator[Finding]:
        """Clocks and limits, and the reasons for low clocks; the power cap alone is none."""
        slow: set[_Place] = set()
        for name, text in _GAUGES.items():
            label, _, scale = text.partition("|")
            # Without a known reason a clock may be low for a moment.
            before = None if self._first is None else self._low(self._first, name)
            for place, values in self._low(self._now, name).items():
                reasons, limit = self._now.reasons(place), self._now.number(place, _LIMITS.get(name, ""))
                is_brief = reasons is None and before is not None and place not in before
                if name not in _RESTING or not (reasons == _POWER_CAP or is_brief):
                    yield _found("why", place, label, values, scale=scale, limit=limit)
                    slow.add(place)
        masks = {place: mask for place in self._now.gpus if (mask := self._now.reasons(place)) is not None}
        for bit, label in _BITS.items():
            having = [place for place, mask in masks.items() if mask & bit]
            names = [name for name, duration in _DURATIONS.items() if duration == label]
            for place in having if len(masks) >= _FEWEST and len(having) <= (1 - _MAJORITY) * len(masks) else ():
                lasts = self._first is not None and (self._first.reasons(place) or 0) & bit
                is_known = any(self._percent(place, name) is not None for name in names)
                if (lasts or place in slow) and not is_known and not (bit == _HW_SLOWDOWN and masks[place] & _HW_PARTS):
                    usual = f"{len(having) - 1} of {len(masks) - 1} others"
                    yield Finding("why", *place, label, usual=usual, weight=5.0)

    def _errors(self) -> Iterator[Finding]:
        """Errors that grew, and lines of the kernel log."""
        for name, label in _COUNTS.items():
            for values in self._peers(name, self._now.number if name in _LOG else self._growth):
                for place in _odd_counts(values, is_grave=name in _GRAVE):
                    last = self._now.facts[place].get(f"last{name[3:]}", "") if name in _LOG else ""
                    weight = values[place] + (_GRAVE_WEIGHT if name in _GRAVE else 0)
                    finding = _found("errors", place, label, values, weight, text=last)
                    yield replace(finding, unit=self._gpu_of(place[0], last) or finding.unit)

    def _gpu_of(self, node: str, line: str) -> str:
        """The GPU that a line of the kernel log names by its PCI address; empty if it names none."""
        address = _PCI.search(line)
        gpus = self._now.gpus if address else ()
        ids = ((at, self._now.facts[node, at].get("pci.bus_id", "")) for of, at in gpus if of == node)
        return next((at for at, bus in ids if address and bus[4:14].lower() == address[1].lower()), "")

    def compare_versions(self) -> dict[str, dict[str, str]]:
        """The nodes of each value, by name; values that few have are findings."""
        nodes_by_value: dict[str, dict[str, str]] = {}
        sets: defaultdict[str, dict[_Place, str]] = defaultdict(dict)
        for place, facts in self._now.facts.items():
            peers = "" if place[1] == "host" or _GPU.fullmatch(place[1]) else f"{place[1].removesuffix('/1')} "
            for name in facts.keys() & _VERSIONS.keys():
                sets[peers + _VERSIONS[name]][place] = facts[name]
        self._differences: list[Finding] = []
        for name, values in sorted(sets.items()):
            places = grouped([(value, place) for place, value in values.items()])
            usual, *others = sorted(places, key=lambda value: (-len(places[value]), value))
            shown = [usual, *others][:_MOST_VALUES]
            nodes_by_value[name] = {value: compressed(node for node, _ in places[value]) for value in shown}
            count = len(places[usual])
            if others and (count < _MAJORITY * len(values) or len(values) < _FEWEST - 1):
                self._differences.append(Finding("differs", "", "", name, len(others) + 1.0))
                continue
            for value in others:
                nodes, units = (set(parts) for parts in zip(*places[value], strict=True))
                is_part = len(nodes) == 1 and len(units) < sum(node in nodes for node, _ in values)
                where = (compressed(nodes), compressed(units) if is_part else "")
                having = count if is_part else len({node for node, _ in places[usual]})
                self._differences.append(Finding("differs", *where, name, text=value, usual=usual, peers=having))
        return nodes_by_value


_KINDS = ("why", "differs", "errors", "smoke")


def _ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by kind and weight; those of one place stay together, and those of several GPUs of a node are one."""
    units = [(finding, "gpu" if finding.unit.startswith("gpu") else finding.unit) for finding in findings]
    groups = grouped([((finding.kind, finding.node, finding.name, unit), finding) for finding, unit in units])
    worst = [max(group, key=lambda finding: finding.weight) for group in groups.values()]
    merged = [
        replace(finding, unit=compressed(of.unit for of in group))
        for finding, group in zip(worst, groups.values(), strict=True)
    ]
    weights = grouped([((finding.kind, finding.node, finding.unit), finding.weight) for finding in merged])

    def order(one: Finding) -> tuple[Any, ...]:
        heaviest = max(0.0, *weights[one.kind, one.node, one.unit])
        return (_KINDS.index(one.kind), -heaviest, by_number(one.node), by_number(one.unit), -one.weight)

    return tuple(sorted(merged, key=order))


# -- a site's smoke test ---------------------------------------------------------------------------

_SMOKE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,39})\s+([0-9]{1,15}(?:\.[0-9]{1,9})?)(?:\s+(\S{1,20}))?\s*")


def smoke_findings(text: str, nodes: Iterable[str]) -> tuple[Finding, ...]:
    """Nodes below their peers in a site's own smoke test, of which more is better.

    Args:
        text: Its output, lines ``NODE<TAB>NAME VALUE [UNIT]``; other lines are passed over. Of several values of a
            node, the least counts.
        nodes: The job's nodes.
    """
    known = frozenset(nodes)
    measured: defaultdict[str, dict[_Place, float]] = defaultdict(dict)
    scales: dict[str, str] = {}
    for line in text.split("\n"):
        node, _, rest = line.partition("\t")
        match = _SMOKE.fullmatch(printable(rest[: 2 * _LONGEST])) if node in known else None
        if match is None or (match[1] not in measured and len(measured) >= _MOST_FINDINGS):
            continue
        values = measured[match[1]]
        values[node, ""] = min(float(match[2]), values.get((node, ""), float(match[2])))
        scales.setdefault(match[1], match[3] or "")
    return _ranked(
        _found("smoke", place, name.replace("_", " "), values, scale=scales[name])
        for name, values in measured.items()
        for place in _odd(values, lambda median: _LOSS * median, low=True)
    )


# -- text ------------------------------------------------------------------------------------------


def why_lines(facts: NodeFacts) -> list[tuple[str, str]]:
    """Lines of a label and a text: findings, or that there are none, then what was not read."""
    notes = [
        *([f"no answer from {facts.silent}"] if facts.silent and facts.readings else []),
        *([f"answered twice, not compared: {facts.twice}"] if facts.twice else []),
        *([f"incomplete: {facts.cut}"] if facts.cut else []),
        *([f"not known to the driver: {named(facts.unknown, 4)}"] if facts.unknown else []),
        *facts.problems,
    ]
    lines = finding_lines(facts.findings)
    if not facts.readings:
        notes += [f"not read: no answer from {facts.silent}"] if facts.silent and not notes else []
        return [*lines, *([("facts", "; ".join(notes))] if notes else [])]
    if facts.more:
        lines.append(("facts", f"and {plural(facts.more, 'more finding')}"))
    read = "read twice" if facts.readings > 1 else "read once: growth during the job is unknown"
    if not lines:
        gpus = f" of {plural(facts.gpus, 'GPU')}" if facts.gpus else ""
        versions = f"{plural(facts.version_names, 'version')} of {plural(facts.nodes, 'node')}"
        lines = [("why", f"nothing differs: {plural(facts.counters, 'counter')}{gpus} and {versions} ({read})")]
    elif facts.readings == 1:
        notes.insert(0, read)
    return [*lines, *([("facts", "; ".join(notes))] if notes else [])]


def finding_lines(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """One line for each kind and place, its findings after each other."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        texts = lines.setdefault((finding.kind, finding.node, finding.unit if finding.node else finding.name), [])
        texts.append(_format_finding(finding, is_first=not texts))
    return [
        (kind, f"{' '.join(filter(None, (node, _format_units(unit))))}: {', '.join(texts)}" if node else texts[0])
        for (kind, node, unit), texts in lines.items()
    ]


def _format_units(unit: str) -> str:
    if unit.startswith("gpu"):
        return f"GPU{'s' if '[' in unit or ',' in unit else ''} {unit[3:].strip('[]')}"
    return unit.removesuffix("/1")


def _format_finding(one: Finding, *, is_first: bool) -> str:
    if one.value is None:
        others = f"{one.peers:,} others " if is_first and one.text else ""
        return f"{one.name}{one.text and f' {one.text}'} ({others}{one.usual})"
    value = _format_number(one.value)
    if one.kind == "differs":
        return f"{one.name} has {value} values, and no majority"
    if one.kind == "errors":
        least, most = _format_number(one.least or 0), _format_number(one.most or 0)
        others = f" (others {least if least == most else f'{least} to {most}'})" if one.peers else ""
        return (
            f"{value} {one.name}{'' if one.text else ' during the job'}{others}{one.text and f', the last: {one.text}'}"
        )
    limit = "" if one.limit is None else f" of {_format_number(one.limit)}"
    median, scale = _format_number(one.median or 0), one.scale and f" {one.scale}"
    unit = " %" if scale.startswith(" %") else ""
    spread = f", {_format_number(one.least or 0)} to {_format_number(one.most or 0)}" if one.kind == "smoke" else ""
    peers = f"median of {one.peers:,} others {median}{unit}{spread}" if is_first else f"{median}{unit}{spread}"
    return f"{one.name} {value}{limit}{scale} ({peers})"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


# -- several runs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """One version over all nodes."""

    name: str
    #: The value that most nodes have, and their number, of how many.
    value: str
    count: int
    nodes: int
    #: By other value, its nodes.
    outliers: Mapping[str, str]


def drift_table(runs: Iterable[NodeFacts]) -> tuple[Drift, ...]:
    """The versions of all nodes by their newest reading; ``runs`` are ordered from the oldest to the newest."""
    latest: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
    for run in runs:
        for name, values in run.versions.items():
            of_run: defaultdict[str, set[str]] = defaultdict(set)
            for value, nodes in values.items():
                for node in expand(nodes):
                    of_run[node].add(value)
            latest[name].update(of_run)
    table = []
    for name, by_node in sorted(latest.items()):
        nodes_of = grouped([(value, node) for node, found in by_node.items() for value in found])
        usual = min(nodes_of, key=lambda value: (-len(nodes_of[value]), value))
        outliers = {value: compressed(nodes) for value, nodes in sorted(nodes_of.items()) if value != usual}
        table.append(Drift(name, usual, len(nodes_of[usual]), len(by_node), outliers))
    return tuple(table)
