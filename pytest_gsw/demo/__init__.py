"""The simulated recipe behind ``--gsw-cluster=demo``: real processes that write authentic logs."""

#: How every simulated log begins.
FIRST_LINE = "pytest-gsw demo: this is a simulation, no GPU was used"
