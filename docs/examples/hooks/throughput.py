"""Write the throughput of each run into ``throughput.csv``. Copy it as conftest.py."""


def pytest_gsw_run_recorded(config, record):
    tokens_per_s = record.figures.measured.get("tokens_per_s")
    with (config.rootpath / "throughput.csv").open("a") as table:
        table.write(f"{record.run.id},{record.row.id},{record.outcome},{tokens_per_s or ''}\n")
