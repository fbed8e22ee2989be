"""What unit tests share: how Hypothesis looks for examples."""

from __future__ import annotations

import os
from importlib.util import find_spec

# pytest reads this file for the README's first command, too, where nothing is installed but the plugin.
if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    #: A submission must not fail because a machine is slow, nor for an example that no other run tries.
    _STEADY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
    settings.register_profile("steady", derandomize=True, max_examples=30, **_STEADY)
    #: ``HYPOTHESIS_PROFILE=nightly`` looks further, at other examples each time.
    settings.register_profile("nightly", max_examples=300, **_STEADY)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
