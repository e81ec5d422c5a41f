"""What tests are made of: builders, stories, a faulty world, processes, a browser, vectors."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of the whole project."""
