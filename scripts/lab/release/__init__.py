"""A release: equal bytes for equal sources, what it rests on, and a signature over all of it."""
