"""How often facts name the right node, unit and reason, and how often they name an innocent one.

Made-up readings of 8 to 256 nodes of 8 GPUs, whose numbers have a natural spread of 4 % (standard deviation), without
a fault and with one of one node: ``python benchmarks/node_facts.py [CASES] [SEED]``, by default 200 of each.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pytest_gsw.results.node_facts import compare
from tests.unit.results.probe_texts import FAULTS, cluster, put, text

SIZES = (8, 8, 16, 16, 32, 64, 128, 256)


def main() -> None:
    """Print a line for each fault, and the totals."""
    cases, seed = (int(word) for word in (*sys.argv[1:], *("200", "1")[len(sys.argv) - 1 :]))
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    right, tried, quiet, compare_s = Counter[str](), Counter[str](), 0, 0.0
    for case in range(cases):
        nodes, fault = rng.choice(SIZES), FAULTS[case % len(FAULTS)]
        readings = cluster(nodes, rng, driver=fault.driver)
        names = sorted({node for node, _, _ in readings[0]})
        quiet += compare(*map(text, readings), names).findings == ()
        node = rng.choice(names)
        unit = put(fault, readings, node, f"gpu{rng.randrange(8)}", rng)
        texts = [*map(text, readings)]
        began_s = time.perf_counter()
        findings = compare(*texts, names).findings
        compare_s += time.perf_counter() - began_s
        first = [(one.kind, one.node, one.unit) for one in findings[:1]]
        is_right = first == [(fault.kind, node, unit)] and fault.name in {one.name for one in findings}
        name = f"{fault.name} ({fault.kind}, driver {fault.driver})"
        tried[name] += 1
        right[name] += is_right and {one.node for one in findings} == {node}
    for name, count in tried.items():
        print(f"{right[name]:4} of {count:4}  {name}")
    print(f"{sum(right.values()):4} of {cases:4}  reason, node and unit right, and no other node named")
    print(f"{cases - quiet:4} of {cases:4}  named in quiet ones; {compare_s / cases:.3f} s a comparison")


if __name__ == "__main__":
    main()
