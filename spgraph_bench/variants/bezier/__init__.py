"""Points of Bezier curves: ``kernels`` are ours."""
