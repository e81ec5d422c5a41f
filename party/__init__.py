"""One company's private side. Imports protocol, never coordinator."""
