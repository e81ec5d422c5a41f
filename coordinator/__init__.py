"""The untrusted coordinator: it introduces members and passes on their signed bytes.

`relay` passes messages on, `rendezvous` introduces the members of a mesh, and `collector` tracks
who has sent what: batching, progress, journal and page read it. `draft` writes agreements, with
`members` and `bands` for their options; `next_session` writes the next one of a series.
Never here: an import of `party`, a solver, a private number.
"""
