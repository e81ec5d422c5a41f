"""Tests, in folders named as the packages that they test. `support` has what they share."""
