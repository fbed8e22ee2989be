"""The simulated recipe behind ``--gsw-cluster=demo``: real processes that write authentic logs."""
