# SPDX-License-Identifier: Apache-2.0
"""Paired differences and their verdicts; results as CSV."""

import csv
import math
import statistics
import typing

from scipy import stats


class Interval(typing.NamedTuple):
    """A mean, and half the width of its t-interval; infinite for fewer than two values."""

    mean: float
    half: float

    @property
    def low(self):
        return self.mean - self.half

    @property
    def high(self):
        return self.mean + self.half


def paired(differences, level=0.95):
    """Of differences between runs that share a seed."""
    n = len(differences)
    if n < 2:
        return Interval(differences[0] if n else math.nan, math.inf)
    half = stats.t.ppf((1 + level) / 2, n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return Interval(statistics.fmean(differences), half)


def unpaired(these, those, level=0.95):
    """Of the difference of two means of independent runs, by Welch's t-interval; infinite where either has one run."""
    mean = statistics.fmean(these) - statistics.fmean(those)
    if min(len(these), len(those)) < 2:
        return Interval(mean, math.inf)
    interval = stats.ttest_ind(these, those, equal_var=False).confidence_interval(level)
    return Interval(mean, float(interval.high - interval.low) / 2)


def p_value(differences):
    """Two-sided, of the t-test that paired differences have mean 0; 1 for fewer than two."""
    n = len(differences)
    spread = statistics.stdev(differences) if n > 1 else math.inf
    if spread == 0:
        return float(statistics.fmean(differences) == 0)
    return float(2 * stats.t.sf(abs(statistics.fmean(differences)) * math.sqrt(n) / spread, n - 1)) if n > 1 else 1.0


def holm(p_values):
    """Those of claims that are tested together (Holm's correction): one below 0.05 holds however many there are."""
    order, corrected, largest = sorted(range(len(p_values)), key=p_values.__getitem__), [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def is_greater(interval):
    """The verdict on the claim that a difference is greater than zero."""
    return "PASS" if interval.low > 0 else "FAIL" if interval.high < 0 else "INCONCLUSIVE"


def is_within(interval, margin):
    """The verdict on the claim that a difference is within +-margin: two one-sided tests at 5 % each, if the interval
    is one of 90 %."""
    if -margin < interval.low and interval.high < margin:
        return "PASS"
    return "FAIL" if interval.low > margin or interval.high < -margin else "INCONCLUSIVE"


def write_csv(path, rows):
    """Dictionaries as a table. What one lacks is empty, a dictionary in it has a column for each key, and lists, which
    the JSON lines have, are left out."""
    flat = []
    for row in rows:
        flat.append({})
        for key, value in row.items():
            if isinstance(value, dict):
                flat[-1] |= {f"{key} {inner}": v for inner, v in value.items()}
            elif not isinstance(value, list | tuple):
                flat[-1][key] = value
    with open(path, "w", newline="") as file:
        columns = list(dict.fromkeys(key for row in flat for key in row))
        table = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(flat)
