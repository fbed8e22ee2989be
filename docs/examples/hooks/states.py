"""Write each new state of a job into ``states.txt``. Copy it as conftest.py."""


def pytest_gsw_job_state_changed(config, baseline, job_id, status):
    with (config.rootpath / "states.txt").open("a") as states:
        states.write(f"{baseline.id} {job_id} {status.state.value} {status.nodes}\n")
