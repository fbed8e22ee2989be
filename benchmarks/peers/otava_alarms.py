"""Apache Otava's answers, in an environment of its own: one JSON line in for each question, one out.

    {"series": [...], "first": 60, "earliest": 55}   the series again each run from the first on; how many runs
                                                     there were when a change to slower at "earliest" or later was
                                                     first reported (null: never); with "points", only once there
                                                     are so many points since the change
    {"series": [...]}                                the change points of the whole series

The options are the defaults of Otava's command line (window 50, p 0.001, no least magnitude) unless others are given.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import warnings

from otava.analysis import compute_change_points

#: scipy warns of windows whose values are all the same.
warnings.simplefilter("ignore")


def change_points(question, series):
    options = {"window_len": 50, "max_pvalue": 0.001, "min_magnitude": 0.0, **question.get("options", {})}
    return compute_change_points(series, **options)[0]


def answer(question):
    series = question["series"]
    if "first" not in question:
        points = change_points(question, series)
        return [[int(point.index), float(point.stats.mean_1), float(point.stats.mean_2)] for point in points]
    least = question.get("points", 1)
    for runs in range(question["first"] + 1, len(series) + 1):
        for point in change_points(question, series[:runs]):
            is_known = question["earliest"] <= point.index <= runs - least
            if is_known and point.stats.mean_2 > point.stats.mean_1:
                return runs
    return None


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
