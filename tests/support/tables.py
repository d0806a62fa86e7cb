"""Reads the tables that chanctl prints."""

import re


def rows(text):
    """A table as a list of dictionaries; cells are at least two spaces apart."""
    lines = text.splitlines()
    starts = [match.start() for match in re.finditer(r"(?:(?<=  )|^)\S", lines[0])]
    names = lines[0].split()
    assert len(starts) == len(names), lines[0]
    ends = starts[1:] + [None]
    return [{name: line[start:end].strip() for name, start, end in zip(names, starts, ends)} for line in lines[1:]]
