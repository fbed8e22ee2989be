from __future__ import annotations

import itertools
import math

import pytest

from pytest_gsw.jobs.pending import OF_ONE, REASONS, begins_after, dated, reason_of

#: What limits count, in the reasons of Slurm from 16.05 on.
_TRES = ("BB", "Billing", "Energy", "GRES", "License", "Node", "Unknown")

#: Reasons of job_state_reason.c that do not end by themselves.
NEVER_END = [
    *("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "BadConstraints", "DependencyNeverSatisfied"),
    *("PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "MaxMemPerLimit", "BurstBufferOperation"),
    *("InvalidQOS", "InvalidAccount", "QOSNotAllowed", "AccountNotAllowed", "ReservationDeleted", "ReservationInvalid"),
    *(f"{of}Max{what}PerJob" for of, what in itertools.product(("Assoc", "QOS"), (*_TRES, "Mem", "Memory"))),
    *(f"{of}Max{what}PerNode" for of, what in itertools.product(("Assoc", "QOS"), (*_TRES, "Cpu", "Mem", "Memory"))),
    *(f"{of}Max{what}MinutesPerJob" for of, what in itertools.product(("Assoc", "QOS"), (*_TRES, "Mem", "Memory"))),
    *(f"{of}MaxCpu{what}PerJobLimit" for of, what in itertools.product(("Assoc", "QOS"), ("", "Minutes"))),
    *(f"{of}Max{what}PerJobLimit" for of, what in itertools.product(("Assoc", "QOS"), ("Node", "WallDuration"))),
    *(f"QOSMin{what}" for what in (*_TRES, "CpuNotSatisfied", "Memory")),
]
#: And what slurmctld prints in the place of some.
NEVER_END_EITHER = [
    "launch failed requeued held",
    "launch_failed_requeued_held",
    "launch failure limit exceeded requeued held",
    "user env retrieval failed requeued held",
    "job requeued in held state",
    "job requeued in special exit state",
    "License request 'a:2' is no longer valid, holding job",
    "Reservation night was deleted",
    "Reservation night is invalid",
    "burst_buffer/lua: slurm_bb_data_in: failed",
    "Job's QOS not permitted to use this partition (p2 allows high not normal)",
    "Job's account not permitted to use this partition (p2 allows nobody not root)",
    "uid 1000 not in group permitted to use this partition (p2). groups allowed: hpc",
]
#: Those that do.
END = [
    *("None", "Priority", "Resources", "Dependency", "Licenses", "Reservation", "ReqNodeNotAvail", "NodeDown"),
    *("PartitionDown", "PartitionInactive", "Prolog", "Cleaning", "Constraints", "SchedDefer", "FedJobLock"),
    *("MpiPortsBusy", "NvidiaImexChannels", "BurstBufferResources", "BurstBufferStageIn", "JobArrayTaskLimit"),
    *("MaxPoweredUpNodes", "QOSUsageThreshold", "AccountingPolicy", "AssocMaxJobsLimit", "AssocMaxSubmitJobLimit"),
    *("QOSMaxJobsPerUserLimit", "QOSMaxSubmitJobPerUserLimit", "QOSMaxNodePerUserLimit", "QOSMaxCpuPerUserLimit"),
    *("MaxJobsPerAccount", "MaxSubmitJobsPerAccount", "AssociationJobLimit", "AssociationResourceLimit"),
    *("AssociationTimeLimit", "QOSJobLimit", "QOSResourceLimit", "QOSTimeLimit"),
    *("SystemFailure", "JobLaunchFailure", "NonZeroExitCode", "RaisedSignal", "TimeLimit", "InactiveLimit"),
    *("DeadLine", "OutOfMemory", "BlockFreeAction", "BlockMaxError", "FrontEndDown", "PowerNotAvail", "PowerReserved"),
    *(
        f"{of}Grp{what}{minutes}"
        for of, what, minutes in itertools.product(
            ("Assoc", "QOS"), (*_TRES, "Mem", "Memory"), ("", "Minutes", "RunMinutes")
        )
    ),
    *(
        f"{of}Grp{what}Limit"
        for of, what in itertools.product(
            ("Assoc", "QOS"), ("Cpu", "CPUMinutes", "CPURunMinutes", "Jobs", "Mem", "Node", "SubmitJobs", "Wall")
        )
    ),
    *(f"QOSMax{what}PerUser" for what in (*_TRES, "Memory")),
    *(f"Max{what}PerAccount" for what in (*_TRES, "Cpu", "Memory")),
    *(f"Max{what}RunMinsPer{who}" for what, who in itertools.product((*_TRES, "Cpu", "Memory"), ("User", "Account"))),
]
#: Texts in the place of some, and what Slurm has never said so far.
END_TOO = [
    "ReqNodeNotAvail, UnavailableNodes:n[1-8]",
    "ReqNodeNotAvail, Reserved for maintenance",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "burst_buffer/datawarp: Stage-out in progress",
    "PartitionTimeLimitOfTomorrow",
    "JobHeldForCoffee",
    "held",
    "",
    "(null)",
]


@pytest.mark.parametrize("reason", [*NEVER_END, *NEVER_END_EITHER])
def test_a_reason_that_does_not_end_by_itself_has_a_next_step(reason: str) -> None:
    assert reason_of(reason).advice


@pytest.mark.parametrize("reason", [*END, *END_TOO])
def test_a_reason_that_ends_by_itself_never_ends_a_row(reason: str) -> None:
    assert reason_of(reason).advice is None


def test_no_group_is_without_a_reason() -> None:
    reasons = (*NEVER_END, *NEVER_END_EITHER, f"PartitionTimeLimit{OF_ONE}", "BeginTime")
    assert {reason_of(reason) for reason in reasons} == {*REASONS}


def test_a_limit_that_does_not_hold_everywhere_ends_no_row() -> None:
    limits = [reason for reason in NEVER_END if reason_of(reason).has_alternatives]
    assert {"BadConstraints", "PartitionNodeLimit", "QOSMaxNodePerJobLimit", "InvalidAccount"} < {*limits}
    assert [reason_of(f"{reason}{OF_ONE}").advice for reason in limits] == [None] * len(limits)


def test_an_earliest_start_is_part_of_its_reason() -> None:
    reason = dated("BeginTime", 1893456000.0)
    assert reason_of(reason).is_dated
    assert begins_after(reason, 1893455999.0)
    assert not begins_after(reason, 1893456000.0)
    assert not begins_after(reason, math.inf)
    assert not begins_after("BeginTime", 0.0)
    assert dated("JobHeldUser", 1893456000.0) == "JobHeldUser"
