"""A probe of a running job's nodes: versions, clocks, throttling and error counters, in a step beside the job's own.

The probe is a shell text without dependencies. It prints lines ``NODE<TAB>UNIT<TAB>NAME<TAB>VALUE`` (the unit is
``host``, ``gpu0``, ``mlx5_3/1``, ``eth0``), which :mod:`pytest_gsw.results.node_facts` reads. A probe explains a row
and never decides it: all of its failures are values.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal

from pytest_gsw.common.process import run_in_background
from pytest_gsw.common.redact import printable
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.spec import query_environment
from pytest_gsw.jobs.step_ends import PROBE_STEP

#: The vendor of the GPUs whose tool is called; ``host`` calls none.
Kind = Literal["nvidia", "amd", "host"]

#: Seconds after which a probe is ended. Its own commands have 8 s each.
LIMIT_S = 30.0
#: Seconds that srun has to end its step by itself.
_GRACE_S = 3.0
#: The probe cuts its output to as much on each node; the rest is room for srun's own lines.
NODE_BYTES = 65_536
_MOST_ERRORS = 16_384
#: Before this version ``--overlap`` shares CPUs alone, and a step that wants the job's GPUs waits for them.
_SHARES_GPUS_SINCE = "22.05"
#: Variables that srun reads as options, such as those of a session inside a job; SLURM_CONF is the cluster's place.
_OPTIONS = ("SLURM_", "SLURMD_", "SRUN_", "PMI", "PMIX_", "SPANK_", "PYXIS_", "SBATCH_")

#: Fields of ``nvidia-smi --query-gpu``. Drivers before R535 have no ``clocks_event_reasons``, later ones dropped
#: ``clocks_throttle_reasons``; the probe asks again without a field that is refused, and names it.
NVIDIA_FIELDS = (
    *("pci.bus_id", "name", "driver_version", "vbios_version", "clocks.current.sm", "clocks.max.sm"),
    *("clocks.current.memory", "enforced.power.limit", "temperature.gpu"),
    *("clocks_event_reasons.active", "clocks_throttle_reasons.active", "pcie.link.gen.current"),
    *("pcie.link.width.current", "ecc.errors.corrected.volatile.total", "ecc.errors.uncorrected.volatile.total"),
    *("remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure"),
    *("retired_pages.double_bit.count", "retired_pages.pending"),
)

#: Arguments: the kind, the seconds for which the job runs, and NVIDIA's fields. GSW_PROBE_ROOT stands for / in tests.
PROBE = r"""
kind=$1 window=$2 names=,$3 root=$GSW_PROBE_ROOT node=${SLURMD_NODENAME:-$(uname -n)} LC_ALL=C
PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/opt/rocm/bin; export PATH LC_ALL
limit=; command -v timeout >/dev/null && limit='timeout -k 1 8'
fact() { [ -z "$3" ] || printf '%s\t%s\t%s\t%.400s\n' "$node" "$1" "$2" "$3"; }
file() { v=; { read -r v <"$3"; } 2>/dev/null; fact "$1" "$2" "$v"; }
read -r uptime _ </proc/uptime
{ fact host begin "$uptime"; fact host kernel "$(uname -r)"
for f in class/dmi/id/bios_version class/dmi/id/product_name module/nvidia/version module/amdgpu/version \
  module/mlx5_core/version devices/system/cpu/cpu0/microcode/version devices/system/cpu/online; do
  file host "$f" "$root/sys/$f"; done
for f in vm/nr_hugepages kernel/numa_balancing; do file host "$f" "$root/proc/sys/$f"; done
read -r _ v _ <"$root/proc/meminfo" && fact host memory_kb "$v"
read -r v <"$root/sys/kernel/mm/transparent_hugepage/enabled" && v=${v#*\[} &&
  fact host transparent_hugepages "${v%%\]*}"
all=; for f in "$root"/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
  v=; read -r v <"$f"; case "$all " in *" $v "*) ;; *) all="$all $v";; esac; done; fact host governor "${all# }"
if read -r v <"$root/proc/cmdline"; then all=; set -f; for w in $v; do
  case $w in *iommu*|pci=*|mitigations=*|*idle=*|*cstate=*) all="$all $w";; esac; done
  set +f; all=${all# }; fact host kernel_options "${all:-default}"; fi
for d in "$root"/sys/class/infiniband/*/; do
  u=${d%/}; u=${u##*/}; file "$u" firmware "${d}fw_ver"; file "$u" board "${d}board_id"
  for p in "$d"ports/*/; do q=${p%/}; q=$u/${q##*/}; file "$q" rate "${p}rate"; file "$q" state "${p}state"
    for f in "$p"counters/*err* "$p"counters/*discards "$p"counters/link_downed "$p"hw_counters/*err* \
      "$p"hw_counters/out_of_sequence; do [ -e "$f" ] && file "$q" "${f##*/}" "$f"; done; done; done
for d in "$root"/sys/class/net/*/device; do d=${d%/device}
  for f in rx_errors tx_errors rx_dropped tx_dropped; do file "${d##*/}" $f "$d/statistics/$f"; done; done
if log=$($limit dmesg); then printf '%s\n' "$log" | awk -v n="$node" -v up="$uptime" -v window="$window" '
  function count(name) {c[name]++; last[name] = substr($0, 1, 300)}
  {time = $0; sub(/^\[ */, "", time); if (time + 0 < up - window) next; gsub(/[\t\r]/, " ")}
  /NVRM: Xid/ {count("xid")} /SXid|NVSwitch.*[Ee]rror/ {count("nvlink")} /AER: |PCIe Bus Error/ {count("pcie")}
  /EDAC .*(CE|UE)|Hardware Error|mce: .*error/ {count("memory")} /[Oo]ut of memory|oom-kill/ {count("oom")}
  /mlx5_core.*([Ee]rr|[Ff]ail|timeout|syndrome|Link down)/ {count("mlx5")}
  /amdgpu.*([Ee]rror|[Ff]ail|timeout|reset)/ {count("amdgpu")} /clock throttled|above threshold/ {count("thermal")}
  /blocked for more than|soft lockup|hard LOCKUP/ {count("stuck")}
  END {m = split("xid nvlink pcie memory oom mlx5 amdgpu thermal stuck", name, " "); for (i = 1; i <= m; i++) {
    k = name[i]; print n "\thost\tlog." k "\t" c[k] + 0; if (k in last) print n "\thost\tlast." k "\t" last[k]}}'
else fact host problem 'the kernel log is not readable'; fi
if [ "$kind" = nvidia ]; then
  until [ -z "$names" ] || out=$($limit nvidia-smi --query-gpu=index$names --format=csv,noheader,nounits 2>&1); do
    bad=${out#*Field \"}; bad=${bad%%\"*}
    case $names, in *",$bad,"*) ;; *) fact host problem "nvidia-smi: ${out:-no answer}"; break;; esac
    fact host unknown "$bad"; names=$names,; names=${names%%,$bad,*},${names#*,$bad,}; names=${names%,}
  done
  printf '%s\n' "$out" | awk -F', *' -v n="$node" -v names="$names" '{sub(/\r$/, "")} $1 ~ /^[0-9]+$/ {
    split(names, name, ","); for (i = 2; i <= NF; i++) print n "\tgpu" $1 "\t" name[i] "\t" $i}'
  $limit nvidia-smi -q -d PERFORMANCE | awk -F' *: *' -v n="$node" '/^GPU / {gpu++} / us *$/ {sub(/^ */, "")
    print n "\tgpu" gpu - 1 "\tus." $1 "\t" $2} /^CUDA Version/ {print n "\thost\tcuda\t" $2}'
elif [ "$kind" = amd ] && command -v amd-smi >/dev/null; then
  { for o in --violation --throttle ''; do v=$($limit amd-smi metric -p -c -t -P -e $o --json)
      case $?$v in 124*|137*|*'"gpu"'*) printf '%s\n' "$v"; break;; esac; done
    $limit amd-smi static -d -V -l --json; } | awk -F'"' -v n="$node" '{d = match($0, /[^ ]/)} /: *[{]/ {path[d] = $2}
    /"gpu":/ {gpu = $3; gsub(/[^0-9]/, "", gpu); next} /": *[^ [{]/ {v = $4 == "" ? $3 : $4; gsub(/^[: ]+|, *$/, "", v)
      k = $2 == "value" ? path[d - 8] "." path[d - 4] : path[d - 4] "." $2
      if (k ~ /^(gfx_0|mem_0|power|temperature|pcie|ecc|throttle|driver|vbios|limit)[.]/ && k !~ /violation_|locked/)
        print n "\tgpu" gpu "\t" k "\t" v}'
elif [ "$kind" = amd ]; then command -v rocm-smi >/dev/null || fact host problem 'no amd-smi and no rocm-smi'
  $limit rocm-smi --showclocks --showpower --showmaxpower --showtemp --showvbios --showdriverversion --json |
    tr '{,}' '\n' | awk -F'"' -v n="$node" '/"(card[0-9]+|system)":/ {u = $2; sub(/card/, "gpu", u)}
    $4 {gsub(/:/, "", $2); gsub(/ /, "_", $2); print n "\t" u "\t" $2 "\t" $4}'; fi
fact host end 1; } 2>/dev/null | head -c 65536; exit 0
"""


_SMOKE = r"""
node=${SLURMD_NODENAME:-$(uname -n)}
"$@" | head -c 65536 | while read -r line; do printf '%s\t%s\n' "$node" "$line"; done
"""


def probe_command(
    job_id: str, nodes: int, kind: Kind, cluster: str, *, window_s: float, version: str = ""
) -> tuple[str, ...]:
    """The step that probes each node of a running job once.

    Args:
        job_id: The job.
        nodes: Number of its nodes.
        kind: Which GPUs the nodes have.
        cluster: Its cluster, empty for the default one.
        window_s: Seconds since the job began: lines of the kernel log in that time are counted.
        version: Slurm's version; an unknown one counts as the newest.
    """
    # A step without GRES sees no GPU if the site constrains devices.
    without_gpus = kind == "host" or "" < version < _SHARES_GPUS_SINCE
    step = _step(job_id, nodes, cluster, *(("--gres=none",) if without_gpus else ()))
    return (*step, "sh", "-c", PROBE, PROBE_STEP, kind, str(round(window_s)), ",".join(NVIDIA_FIELDS))


def smoke_command(job_id: str, nodes: int, words: Sequence[str], cluster: str) -> tuple[str, ...]:
    """The step that runs a site's smoke test on each node of a job once, each line of it after the node's name."""
    return (*_step(job_id, nodes, cluster), "sh", "-c", _SMOKE, PROBE_STEP, *words)


def _step(job_id: str, nodes: int, cluster: str, *options: str) -> tuple[str, ...]:
    return (
        *("srun", *((f"--clusters={cluster}",) if cluster else ()), f"--jobid={job_id}", f"--job-name={PROBE_STEP}"),
        *("--overlap", *options, f"--nodes={nodes}", "--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none"),
        *("--kill-on-bad-exit=0", "--export=PATH", "--input=none", "--quiet"),
    )


@dataclass(frozen=True)
class Probed:
    """The output of a probe."""

    #: Lines of facts, also of a probe that did not end well.
    text: str = ""
    #: Why facts are missing, in one line; empty if the probe ended well.
    problem: str = ""


def probe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a probe, by the session's: without what srun reads as options."""
    return {
        name: value
        for name, value in query_environment(environ).items()
        if name == "SLURM_CONF" or not name.startswith(_OPTIONS)
    }


class Probe:
    """A probe that runs in the background; nothing that it does raises."""

    def __init__(
        self, command: tuple[str, ...], environ: Mapping[str, str], nodes: int, limit_s: float = LIMIT_S
    ) -> None:
        self._limit_s, self._most = limit_s, nodes * NODE_BYTES
        environment = probe_environment(environ)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C goes to all processes of a terminal
            )
        except OSError as error:
            problem = f"not read: {command[0]}: {error.strerror or error}"
            self.result: Future[Probed] = Future()
            self.result.set_result(Probed(problem=problem))
        else:
            process = self._process
            self.result = run_in_background(lambda: self._read(process), "gsw-probe")

    def end(self) -> None:
        """End the probe and all of its processes; srun first has the time to end its step."""
        process = self._process
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)

    def _read(self, process: subprocess.Popen[bytes]) -> Probed:
        """The output up to its limits, in bytes and seconds; then the probe has ended."""
        output, errors, why = bytearray(), bytearray(), ""
        end_s = time.monotonic() + self._limit_s
        with process, selectors.DefaultSelector() as selector:
            selector.register(process.stdout or 0, selectors.EVENT_READ, (output, self._most))
            selector.register(process.stderr or 0, selectors.EVENT_READ, (errors, _MOST_ERRORS))
            while selector.get_map() and not why:
                if time.monotonic() >= end_s:
                    why = f"no end within {self._limit_s:g} s"
                for key, _ in selector.select(max(0.0, end_s - time.monotonic())):
                    buffer, most = key.data
                    chunk = os.read(key.fd, 65_536)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    buffer += chunk[: most - len(buffer)]
                    if chunk and len(output) >= self._most:
                        why = f"cut after {self._most:,} bytes"
            if not why:  # the end of its output comes just before its own
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end_s - time.monotonic()))
            self.end()
            process.wait()
        text = output.decode(errors="replace")
        whole = errors if len(errors) < _MOST_ERRORS else errors[: errors.rfind(b"\n") + 1]
        return probed(Output(process.returncode, text, whole.decode(errors="replace")), why)


def probed(answer: Output, why: str = "") -> Probed:
    """The output of a probe by its command's; ``why`` is the reason why it is not whole, if that is known."""
    answer = replace(answer, stderr=printable(answer.stderr))
    if not why and answer.returncode:
        why = answer.problem or f"exit code {answer.returncode}"
    return Probed(answer.stdout, why and f"{'read in part' if answer.stdout else 'not read'}: {why[:300]}")
