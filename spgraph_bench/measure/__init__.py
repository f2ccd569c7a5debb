"""How numbers are measured: the timing loop, the stopping rule, the state of the GPU's clocks."""

from spgraph_bench.measure.cpu_clock import CpuClock
from spgraph_bench.measure.sampling import Clock, Ended, Entry, Sample, Taken, sample_interleaved
from spgraph_bench.measure.stopping import StoppingRule

__all__ = ["Clock", "CpuClock", "Ended", "Entry", "Sample", "StoppingRule", "Taken", "sample_interleaved"]
