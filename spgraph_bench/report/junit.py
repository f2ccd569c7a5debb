"""Records as JUnit XML, which CI systems show: a suite for each input, a test case for each variant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from spgraph_bench.results.record import Record

__all__ = ["Suite", "junit_xml"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


@dataclass(frozen=True)
class Suite:
    """What one input gave."""

    name: str
    records: tuple[Record, ...]
    failures: tuple[str, ...] = ()
    """What is wrong beside the records; a failing test case each."""
    seconds: float = 0.0


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def junit_xml(suites: Iterable[Suite], properties: Mapping[str, str], name: str = "spgraph smoke") -> bytes:
    """UTF-8 XML: ``testsuites`` with a ``testsuite`` for each of `suites`, which has a ``testcase`` for each record.

    A wrong or failed record is a ``failure`` with its reason, a skipped one ``skipped``. `properties` (device, driver)
    are in every suite. Follows the schema that Jenkins, GitLab and GitHub's reporters read.
    """
    root = ElementTree.Element("testsuites", name=name)
    totals = {"tests": 0, "failures": 0, "skipped": 0}
    seconds = 0.0
    for suite in suites:
        element = ElementTree.SubElement(root, "testsuite", name=_clean(suite.name))
        if properties:
            held = ElementTree.SubElement(element, "properties")
            for key, value in properties.items():
                ElementTree.SubElement(held, "property", name=_clean(key), value=_clean(value))
        counts = dict.fromkeys(totals, 0)
        for title, kind, reason in (*map(_outcome, suite.records), *(("input", "failed", f) for f in suite.failures)):
            case = ElementTree.SubElement(element, "testcase", classname=_clean(suite.name), name=_clean(title))
            counts["tests"] += 1
            if kind == "skipped":
                ElementTree.SubElement(case, "skipped", message=_clean(reason))
                counts["skipped"] += 1
            elif kind != "ok":
                ElementTree.SubElement(case, "failure", type=kind, message=_clean(reason)).text = _clean(reason)
                counts["failures"] += 1
        for key, count in counts.items():
            element.set(key, str(count))
            totals[key] += count
        element.set("errors", "0")
        element.set("time", f"{suite.seconds:.3f}")
        seconds += suite.seconds
    for key, count in totals.items():
        root.set(key, str(count))
    root.set("errors", "0")
    root.set("time", f"{seconds:.3f}")
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _outcome(record: Record) -> tuple[str, str, str]:
    return f"{record.variant} {record.dtype}", record.status, record.reason
