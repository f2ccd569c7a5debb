"""Ways to launch: ``kernels`` are ours."""
