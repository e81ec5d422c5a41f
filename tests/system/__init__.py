"""Complete sessions: real processes, hosts, unknown keys, containers, pages, simulations."""
