"""The probe of a node, run by real shells beside stand-ins of the vendors' tools, and the process that runs it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from pytest_gsw.jobs.slurm import probing
from pytest_gsw.jobs.slurm.probing import NVIDIA_FIELDS, PROBE, Probe, Probed, probe_command
from tests.messages import wording

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]

#: Fields that a driver of each generation has; [N/A] where the GPU has none.
VALUES = {
    "pci.bus_id": "00000000:4F:00.0",
    "name": "NVIDIA A100-SXM4-80GB",
    "driver_version": "DRIVER",
    "vbios_version": "92.00.45.00.05",
    "clocks.current.sm": "1410",
    "clocks.max.sm": "1410",
    "clocks.current.memory": "1593",
    "enforced.power.limit": "400.00",
    "temperature.gpu": "54",
    "clocks_throttle_reasons.active": "0x0000000000000004",
    "clocks_event_reasons.active": "0x0000000000000004",
    "pcie.link.gen.current": "4",
    "pcie.link.width.current": "16",
    "ecc.errors.corrected.volatile.total": "0",
    "ecc.errors.uncorrected.volatile.total": "[N/A]",
    **{f"remapped_rows.{name}": "0" for name in ("correctable", "uncorrectable")},
    **{f"remapped_rows.{name}": "No" for name in ("pending", "failure")},
    "retired_pages.double_bit.count": "[N/A]",
    "retired_pages.pending": "[Not Supported]",
}
MISSING = {
    "418.226.00": {"clocks_event_reasons.active", *(name for name in VALUES if name.startswith("remapped_rows"))},
    "470.256.02": {"clocks_event_reasons.active"},
    "535.183.06": set(),
    "580.126.20": {"clocks_throttle_reasons.active"},
}
COUNTERS = """\
    Clocks Event Reasons
        SW Power Cap                                   : Active
        HW Slowdown                                    : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                               : 12234991553 us
        SW Thermal Slowdown                            : 11591399010 us
        HW Power Braking                               : 0 us
"""


def nvidia_smi(driver: str, gpus: int = 2) -> str:
    known = {**VALUES, "driver_version": driver}
    missing = MISSING[driver]
    counters = COUNTERS if driver.startswith("580") else ""
    per_gpu = "".join(f"GPU 00000000:4{gpu}:00.0\n    Performance State : P0\n{counters}" for gpu in range(gpus))
    return f"""#!{sys.executable}
import sys
known, missing = {known!r}, {missing!r}
if "-q" in sys.argv:
    print('''==============NVSMI LOG==============
Driver Version                                         : {driver}
CUDA Version                                           : 12.4
Attached GPUs                                          : {gpus}
{per_gpu}''')
    sys.exit()
names = next(one for one in sys.argv if one.startswith("--query-gpu=")).partition("=")[2].split(",")
for name in names:
    if name != "index" and (name not in known or name in missing):
        print(f'Field "{{name}}" is not a valid field to query.\\n')
        sys.exit(2)
for gpu in range({gpus}):
    print(", ".join(str(gpu) if name == "index" else known[name] for name in names))
"""


ROCM_SMI = """#!/bin/sh
echo '{"card0": {"VBIOS version": "113-D65209-073", "Temperature (Sensor junction) (C)": "35.0",'\\
 '"sclk clock speed:": "(800Mhz)", "Max Graphics Package Power (W)": "560.0", "mclk clock speed:": "N/A"},'\\
 '"card1": {"sclk clock speed:": "(1700Mhz)"}, "system": {"Driver version": "6.2.4"}}'
"""
AMD_SMI = """#!/bin/sh
case "$*" in
*--violation*) echo '{"error": "unrecognized", "code": -2}'; exit 0;;
static*) cat <<'EOF'
{
    "gpu_data": [
        {
            "gpu": 0,
            "driver": {
                "name": "amdgpu",
                "version": "6.12.12"
            },
            "limit": {
                "socket_power": {
                    "value": 750,
                    "unit": "W"
                }
            }
        }
    ]
}
EOF
;;
*) cat <<'EOF'
[
    {
        "gpu": 0,
        "power": {
            "socket_power": {
                "value": 749,
                "unit": "W"
            },
            "throttle_status": "N/A"
        },
        "clock": {
            "gfx_0": {
                "clk": {
                    "value": 2092,
                    "unit": "MHz"
                },
                "min_clk": "N/A",
                "max_clk": {
                    "value": 2100,
                    "unit": "MHz"
                }
            },
            "vclk_0": {
                "clk": "N/A"
            }
        },
        "ecc": {
            "total_correctable_count": 3
        },
        "throttle": {
            "accumulation_counter": 812345,
            "socket_thermal_accumulated": 991,
            "prochot_violation_status": "NOT ACTIVE"
        }
    },
    {
        "gpu": 1,
        "ecc": {
            "total_correctable_count": "N/A"
        }
    }
]
EOF
esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder of programs that come before the machine's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


def probe(
    tools: Path, kind: str, *, shell: str = "sh", root: Path | None = None, window: str = "100"
) -> dict[str, dict[str, str]]:
    """The facts of a node by unit and name; every line of the output is one."""
    environ = {"PATH": f"{tools}:{os.environ['PATH']}", "SLURMD_NODENAME": "n7", "GSW_PROBE_ROOT": str(root or "")}
    arguments = ["sh"] if shell == "busybox" else []
    command = [shell, *arguments, "-c", PROBE, "gsw-probe", kind, window, ",".join(NVIDIA_FIELDS)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    facts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for line in done.stdout.splitlines():
        node, unit, name, value = line.split("\t")
        assert node == "n7"
        if name in facts[unit]:
            value = f"{facts[unit][name]} {value}"
        facts[unit][name] = value
    return facts


def test_the_probe_is_short() -> None:
    lines = PROBE.strip().split("\n")
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("driver", MISSING)
def test_fields_that_a_driver_does_not_know_are_left_out_and_named(driver: str, shell: str, tools: Path) -> None:
    put(tools, "nvidia-smi", nvidia_smi(driver))
    facts = probe(tools, "nvidia", shell=shell)
    wanted = {
        name: value for name, value in {**VALUES, "driver_version": driver}.items() if name not in MISSING[driver]
    }
    found = {name: value for name, value in facts["gpu1"].items() if not name.startswith("us.")}
    assert found == wanted
    assert set(facts["host"].get("unknown", "").split()) == MISSING[driver]
    assert facts["host"]["cuda"] == "12.4"
    assert facts["host"]["end"] == "1"
    durations = {name: value for name, value in facts["gpu1"].items() if name.startswith("us.")}
    assert durations == (
        {
            "us.SW Power Capping": "12234991553 us",
            "us.SW Thermal Slowdown": "11591399010 us",
            "us.HW Power Braking": "0 us",
        }
        if driver.startswith("580")
        else {}
    )


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (
            "echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9",
            "NVIDIA-SMI has failed",
        ),
        ("""echo 'Field "*" is not a valid field to query.'; exit 2""", 'Field "*" is not'),
        ("exit 255", "no answer"),
    ],
)
def test_a_tool_that_fails_is_named_and_the_rest_is_read(script: str, problem: str, tools: Path) -> None:
    put(tools, "nvidia-smi", f"#!/bin/sh\n{script}\n")
    facts = probe(tools, "nvidia")
    assert facts["host"]["problem"].rpartition("nvidia-smi: ")[2].startswith(problem)
    assert facts["host"].keys() >= {"kernel", "begin", "end"}
    assert "gpu0" not in facts


def test_a_node_without_the_tools_of_its_vendor(tools: Path) -> None:
    assert wording("no amd") in probe(tools, "amd")["host"]["problem"]
    assert "nvidia-smi" in probe(tools, "nvidia")["host"]["problem"]
    assert "smi" not in probe(tools, "host")["host"].get("problem", "")


def test_a_megabyte_is_cut_on_the_node(tools: Path) -> None:
    put(tools, "nvidia-smi", "#!/bin/sh\nyes '0, 0, 0, 0, 0, 0, 0' | head -c 1000000\n")
    command = ["sh", "-c", PROBE, "gsw-probe", "nvidia", "100", ",".join(NVIDIA_FIELDS)]
    environ = {"PATH": f"{tools}:{os.environ['PATH']}", "SLURMD_NODENAME": "n7"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert len(done.stdout) == 65_536
    assert "\tend\t" not in done.stdout


def test_rocm_smi(tools: Path) -> None:
    put(tools, "rocm-smi", ROCM_SMI)
    facts = probe(tools, "amd")
    assert facts["gpu0"] == {
        "VBIOS_version": "113-D65209-073",
        "Temperature_(Sensor_junction)_(C)": "35.0",
        "sclk_clock_speed": "(800Mhz)",
        "Max_Graphics_Package_Power_(W)": "560.0",
        "mclk_clock_speed": "N/A",
    }
    assert facts["gpu1"] == {"sclk_clock_speed": "(1700Mhz)"}
    assert facts["system"] == {"Driver_version": "6.2.4"}


def test_amd_smi_of_a_release_without_the_option_for_violations(tools: Path) -> None:
    put(tools, "amd-smi", AMD_SMI)
    facts = probe(tools, "amd")
    assert facts["gpu0"] == {
        "power.socket_power": "749",
        "power.throttle_status": "N/A",
        "gfx_0.clk": "2092",
        "gfx_0.min_clk": "N/A",
        "gfx_0.max_clk": "2100",
        "ecc.total_correctable_count": "3",
        "throttle.accumulation_counter": "812345",
        "throttle.socket_thermal_accumulated": "991",
        "driver.name": "amdgpu",
        "driver.version": "6.12.12",
        "limit.socket_power": "750",
    }
    assert facts["gpu1"] == {"ecc.total_correctable_count": "N/A"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_host_by_its_files(shell: str, tools: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    port = "sys/class/infiniband/mlx5_3/ports/1"
    for name, text in {
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 iommu=pt * intel_iommu=on quiet",
        "proc/meminfo": "MemTotal:       2113409932 kB\nMemFree: 1 kB",
        "proc/sys/vm/nr_hugepages": "1024",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "sys/class/dmi/id/bios_version": "1.2.8",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "schedutil",
        "sys/devices/system/cpu/cpu10/cpufreq/scaling_governor": "performance",
        "sys/class/infiniband/mlx5_3/fw_ver": "28.39.2048",
        f"{port}/rate": "400 Gb/sec (4X NDR)",
        f"{port}/counters/symbol_error": "1204",
        f"{port}/counters/link_downed": "0",
        f"{port}/counters/port_xmit_data": "7",
        f"{port}/hw_counters/local_ack_timeout_err": "9",
        "sys/class/net/eth0/statistics/rx_dropped": "4",
        "sys/class/net/veth1/statistics/rx_dropped": "5",
        "sys/class/net/eth0/device/vendor": "0x15b3",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    put(tools, "dmesg", "#!/bin/sh\nexit 1\n")
    facts = probe(tools, "host", shell=shell, root=root)
    host = facts["host"]
    assert float(host.pop("begin")) > 0
    assert host.pop("kernel") == os.uname().release
    assert host == {
        "class/dmi/id/bios_version": "1.2.8",
        "vm/nr_hugepages": "1024",
        "memory_kb": "2113409932",
        "transparent_hugepages": "madvise",
        "governor": "performance schedutil",
        "end": "1",
        "kernel_options": "iommu=pt intel_iommu=on",
        "problem": wording("kernel log"),
    }
    assert facts["mlx5_3"] == {"firmware": "28.39.2048"}
    assert facts["mlx5_3/1"] == {
        "rate": "400 Gb/sec (4X NDR)",
        "symbol_error": "1204",
        "link_downed": "0",
        "local_ack_timeout_err": "9",
    }
    assert facts["eth0"] == {"rx_dropped": "4"}
    assert "veth1" not in facts


def test_the_kernel_log_of_the_jobs_time(tools: Path) -> None:
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    lines = [
        f"[{up_s - 5000:12.6f}] NVRM: Xid (PCI:0000:4f:00): 79, before the job",
        f"[{up_s - 50:12.6f}] NVRM: Xid (PCI:0000:4f:00): 63, pid=1",
        f"[{up_s - 40:12.6f}] NVRM: Xid (PCI:0000:4f:00): 79,\tGPU has fallen off the bus.",
        f"[{up_s - 30:12.6f}] EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
        f"[{up_s - 20:12.6f}] Out of memory: Killed process 4711 (python)",
        f"[{up_s - 10:12.6f}] mlx5_core 0000:9f:00.0: Link down",
    ]
    put(tools, "dmesg", "#!/bin/sh\ncat <<'EOF'\n" + "\n".join(lines) + "\nEOF\n")
    host = probe(tools, "host", window="600")["host"]
    counts = {name: value for name, value in host.items() if name.startswith("log.") and value != "0"}
    assert counts == {"log.xid": "2", "log.memory": "1", "log.oom": "1", "log.mlx5": "1"}
    assert host["last.xid"].endswith("79, GPU has fallen off the bus.")
    assert host["log.stuck"] == "0"


def test_the_command() -> None:
    command = probe_command("481220", 32, "nvidia", "eos", window_s=61.7)
    assert command[: command.index("sh")] == (
        *("srun", "--clusters=eos", "--jobid=481220", "--job-name=gsw-probe", "--overlap", "--nodes=32"),
        *("--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=0", "--export=PATH"),
        *("--input=none", "--quiet"),
    )
    assert command[-3:] == ("nvidia", "62", ",".join(NVIDIA_FIELDS))


@pytest.mark.parametrize(
    ("kind", "version", "without"),
    [("nvidia", "22.05.8", False), ("nvidia", "21.08.8", True), ("amd", "", False), ("host", "24.11.5", True)],
)
def test_gpus_are_asked_for_only_where_steps_share_them(kind: str, version: str, *, without: bool) -> None:
    command = probe_command("7", 1, kind, "", window_s=1, version=version)  # type: ignore[arg-type]
    assert ("--gres=none" in command) is without


ENVIRON = {"PATH": os.environ["PATH"]}


def run(script: str, *, limit_s: float = 60, environ: dict[str, str] = ENVIRON) -> Probed:
    return Probe(("sh", "-c", script), environ, 1, limit_s).result.result(60)


def is_running(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_probe_that_ends_well() -> None:
    assert run("echo fact; echo noise >&2") == Probed("fact\n", "")


def test_output_before_a_failure_is_kept() -> None:
    script = "echo fact; echo 'srun: error: n001: task 0: Exited with exit code 255' >&2; exit 255"
    assert run(script) == Probed("fact\n", "read in part: n001: task 0: Exited with exit code 255")
    assert run("exit 255") == Probed("", "not read: exit code 255")


def test_a_probe_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_GRACE_S", 0.1)
    children = tmp_path / "children"
    found = run(f"trap '' TERM; echo fact; sleep 1000 & echo $$ $! >{children}; wait; sleep 1000", limit_s=2)
    assert found == Probed("fact\n", wording("probe in part", why="no end within 2 s"))
    for process in children.read_text().split():
        deadline_s = time.monotonic() + 60
        while is_running(process):  # the kernel ends it in its own time
            assert time.monotonic() < deadline_s, process
            time.sleep(0.01)


def test_a_megabyte_is_cut() -> None:
    found = run("head -c 1000000 /dev/zero | tr '\\0' '\\377'; sleep 1000")
    assert len(found.text) == 65_536
    assert found.problem == wording("probe in part", why="cut after 65,536 bytes")


def test_errors_without_end_fill_nothing() -> None:
    found = run("yes 'srun: error: \033[31mno\033[0m' | head -c 5000000 >&2; exit 3")
    assert found.problem == "not read: no"


def test_no_srun() -> None:
    probe = Probe(("no-such-srun", "--overlap"), ENVIRON, 1)
    assert probe.result.result(0) == Probed("", wording("no probe", why="no-such-srun: ") + wording("no such file"))
    probe.end()


def test_the_session_ends_a_probe() -> None:
    probe = Probe(("sh", "-c", "echo fact; exec sleep 1000"), ENVIRON, 1, 600)
    probe.end()
    assert probe.result.result(60).problem.endswith(f"exit code {-signal.SIGTERM}")


def test_srun_gets_no_option_of_the_sessions_own_job() -> None:
    environ = {
        **ENVIRON,
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "7",
        "SRUN_CPUS_PER_TASK": "8",
        "SLURM_LABELIO": "1",
    }
    names = {line.partition("=")[0] for line in run("env", environ=environ).text.splitlines()}
    assert {name for name in names if name.startswith(("SLURM", "SRUN"))} == {"SLURM_CONF"}
