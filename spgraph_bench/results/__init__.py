"""Records: what was measured, on disk and back, and the statistics that are derived from it."""

from spgraph_bench.results.record import SCHEMA, Ceiling, Record, Samples
from spgraph_bench.results.store import RecordFile, read_records, to_json_lines

__all__ = ["SCHEMA", "Ceiling", "Record", "RecordFile", "Samples", "read_records", "to_json_lines"]
