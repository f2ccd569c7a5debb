"""What is taught about these kernels, measured again: each claim with the runs it needs and the rule that judges it.

``formats`` has claims about sparse formats, ``searches`` about traversals and PageRank, ``launches`` about launches and
the CPU. A module of this package registers what it defines. ``judging`` makes or finds records and applies the rules.
"""

from spgraph_bench.claims.base import Claim, Evidence, Figure, Run, Verdict, claims
from spgraph_bench.claims.judging import Judged, judge_records, measure

__all__ = ["Claim", "Evidence", "Figure", "Judged", "Run", "Verdict", "claims", "judge_records", "measure"]
