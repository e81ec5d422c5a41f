"""The untrusted relay: it introduces members and passes on their signed bytes.

`relay` passes messages on, `rendezvous` introduces the members of a mesh, `collector` tracks who
said what, `draft` writes agreements. Never here: an import of `party`, a solver, a
private number.
"""
