"""Two settings of one row, in turns within one job: what differs is the setting, not the night or the nodes."""
