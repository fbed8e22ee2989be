"""Output of the probe on made-up nodes, with a natural spread, and faults of one of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

DRIVER_470, DRIVER_535, DRIVER_580 = "470.256.02", "535.183.06", "580.126.20"
RUN_S = 1200.0

#: By node, unit and name.
Facts = dict[tuple[str, str, str], str]


def cluster(
    nodes: int, rng: random.Random, *, driver: str = DRIVER_580, gpus: int = 8, spread: float = 0.04
) -> list[Facts]:
    """Two readings of quiet nodes whose numbers have this spread, as a fraction."""
    first: Facts = {}
    last: Facts = {}
    up_s = 86_400.0 * 30

    def natural(value: float) -> int:
        return max(0, round(value * (1 + spread * rng.gauss(0, 1))))

    for number in range(1, nodes + 1):
        node = f"pool0-{number:04}"
        for reading, second in ((first, 0.0), (last, RUN_S)):
            for name, value in {
                "begin": f"{up_s + second:.2f}",
                "kernel": "5.15.0-1053-nvidia",
                "governor": "performance",
                "vm/nr_hugepages": "1024",
                "end": "1",
                "kernel_options": "iommu=pt",
                "class/dmi/id/bios_version": "1.2.8",
                "cuda": driver[:2],
                "memory_kb": str(natural(2_113_000_000)),
                "log.xid": "0",
                "log.memory": "0",
            }.items():
                reading[node, "host", name] = value
        for nic in range(4):
            began = natural(50)
            for reading, count in ((first, began), (last, began + rng.choice([0, 0, 0, 1, 2]))):
                reading[node, f"mlx5_{nic}/1", "rate"] = "400 Gb/sec (4X NDR)"
                reading[node, f"mlx5_{nic}", "firmware"] = "28.39.2048"
                reading[node, f"mlx5_{nic}/1", "symbol_error"] = str(count)
                reading[node, f"mlx5_{nic}/1", "link_downed"] = "0"
        for gpu in range(gpus):
            place = (node, f"gpu{gpu}")
            began, capped, thermal = natural(9e9), natural(0.6 * RUN_S * 1e6), natural(0.1 * RUN_S * 1e6)
            for reading, part in ((first, 0.0), (last, 1.0)):
                facts = {
                    "pci.bus_id": f"00000000:{gpu + 16:02X}:00.0",
                    "driver_version": driver,
                    "vbios_version": "96.00.74.00.01",
                    "name": "NVIDIA H100 80GB HBM3",
                    "clocks.current.sm": str(natural(1755)),
                    "clocks.max.sm": "1980",
                    "clocks.current.memory": str(natural(2619)),
                    "enforced.power.limit": f"{natural(700)}.00",
                    "temperature.gpu": str(natural(61)),
                    "pcie.link.gen.current": "5",
                    "pcie.link.width.current": "16",
                    "ecc.errors.corrected.volatile.total": "2",
                    "ecc.errors.uncorrected.volatile.total": "0",
                    "remapped_rows.correctable": "1",
                    "remapped_rows.pending": "No",
                    "clocks_throttle_reasons.active": rng.choice(["0x0000000000000000", "0x0000000000000004"]),
                }
                if driver != DRIVER_470:
                    facts["clocks_event_reasons.active"] = facts["clocks_throttle_reasons.active"]
                if driver == DRIVER_580:
                    del facts["clocks_throttle_reasons.active"]
                    facts["us.SW Power Capping"] = f"{began + round(part * capped)} us"
                    facts["us.SW Thermal Slowdown"] = f"{began + round(part * thermal)} us"
                    facts["us.HW Thermal Slowdown"] = facts["us.HW Power Braking"] = "0 us"
                for name, value in facts.items():
                    reading[(*place, name)] = value
    return [first, last]


def text(facts: Facts) -> str:
    return "".join(f"{node}\t{unit}\t{name}\t{value}\n" for (node, unit, name), value in facts.items())


@dataclass(frozen=True)
class Fault:
    """A fault of one GPU, NIC or host: what the finding must name."""

    name: str
    kind: str
    unit: str
    change: Callable[[list[Facts], str, str, random.Random], None]
    driver: str = DRIVER_580


def _slow_clock(mask: int) -> Callable[[list[Facts], str, str, random.Random], None]:
    def change(readings: list[Facts], node: str, unit: str, rng: random.Random) -> None:
        for reading in readings:
            reading[node, unit, "clocks.current.sm"] = str(rng.randint(345, 1100))
            for name in ("clocks_event_reasons.active", "clocks_throttle_reasons.active"):
                if (node, unit, name) in reading:
                    reading[node, unit, name] = f"0x{mask:016x}"

    return change


def _lasts(name: str) -> Callable[[list[Facts], str, str, random.Random], None]:
    def change(readings: list[Facts], node: str, unit: str, rng: random.Random) -> None:
        begin = int(readings[0][node, unit, name].removesuffix(" us"))
        readings[1][node, unit, name] = f"{begin + round(rng.uniform(0.4, 1.0) * RUN_S * 1e6)} us"

    return change


def _grows(name: str, least: int, most: int) -> Callable[[list[Facts], str, str, random.Random], None]:
    def change(readings: list[Facts], node: str, unit: str, rng: random.Random) -> None:
        readings[1][node, unit, name] = str(int(readings[0][node, unit, name]) + rng.randint(least, most))

    return change


def _is(name: str, value: str) -> Callable[[list[Facts], str, str, random.Random], None]:
    def change(readings: list[Facts], node: str, unit: str, rng: random.Random) -> None:
        for reading in readings:
            reading[node, unit, name] = value

    return change


FAULTS = (
    Fault("SW thermal slowdown", "why", "gpu", _lasts("us.SW Thermal Slowdown")),
    Fault("HW power brake", "why", "gpu", _lasts("us.HW Power Braking")),
    Fault("SM clock", "why", "gpu", _slow_clock(0x0)),
    Fault("HW slowdown", "why", "gpu", _slow_clock(0x8), DRIVER_470),
    Fault("SW thermal slowdown", "why", "gpu", _slow_clock(0x24), DRIVER_535),
    Fault("power limit", "why", "gpu", _is("enforced.power.limit", "350.00")),
    Fault("uncorrected ECC errors", "errors", "gpu", _grows("ecc.errors.uncorrected.volatile.total", 1, 5)),
    Fault("symbol errors", "errors", "mlx5_2/1", _grows("symbol_error", 100, 90_000)),
    Fault("driver", "differs", "gpus", _is("driver_version", "580.95.05")),
    Fault("governor", "differs", "host", _is("governor", "schedutil")),
    Fault("hugepages", "differs", "host", _is("vm/nr_hugepages", "0")),
)


def put(fault: Fault, readings: list[Facts], node: str, gpu: str, rng: random.Random) -> str:
    """Put a fault on a node, and return the unit that a finding must name."""
    if fault.unit == "gpus":
        for number in range(8):
            fault.change(readings, node, f"gpu{number}", rng)
        return ""
    unit = gpu if fault.unit == "gpu" else fault.unit
    fault.change(readings, node, unit, rng)
    return "" if unit == "host" else unit
