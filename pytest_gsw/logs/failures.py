"""Why a run failed."""
def find_cause(path): return None
