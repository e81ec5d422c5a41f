"""What tests are made of: builders, session harness, simulated network, processes, browser."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of the whole project."""
