from spgraph_bench.api import Results as Results
from spgraph_bench.api import bench as bench
from spgraph_bench.api import read as read

__version__: str
