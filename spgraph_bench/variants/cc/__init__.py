"""Connected components: ``kernels`` are ours, ``cpu`` the baselines on the host."""
