"""How fast Rheo is: `make bench` measures it and writes docs/bench.md."""
