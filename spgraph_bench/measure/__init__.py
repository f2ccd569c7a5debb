"""How numbers are measured: the timing loop, the stopping rule, the state of the GPU's clocks."""

from spgraph_bench.measure.sampling import Clock, CpuClock, Ended, Entry, Sample, Taken, sample_interleaved
from spgraph_bench.measure.stopping import StoppingRule

__all__ = ["Clock", "CpuClock", "Ended", "Entry", "Sample", "StoppingRule", "Taken", "sample_interleaved"]
