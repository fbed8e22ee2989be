"""The simulated recipe behind ``--gsw-cluster=demo``: real processes that write authentic logs."""

#: First line of every simulated log.
FIRST_LINE = "pytest-gsw demo: this is a simulation, no GPU was used"
