"""Whole sessions: real processes, hosts, strangers, containers, pages, and a simulated world."""
