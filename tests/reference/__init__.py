"""An independent implementation of SPEC.md, its member, its vectors, and the comparison.

Written from the text of the specification. Never imports the product, except where a module
compares the two.
"""
