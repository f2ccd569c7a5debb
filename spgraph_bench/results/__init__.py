"""Records: what was measured, on disk and back, and the statistics that are derived from it."""

from spgraph_bench.results.record import SCHEMA, Ceiling, Record, Samples
from spgraph_bench.results.store import DEFAULT_FOLDER, RecordFile, read_records, to_json_lines

__all__ = ["DEFAULT_FOLDER", "SCHEMA", "Ceiling", "Record", "RecordFile", "Samples", "read_records", "to_json_lines"]
