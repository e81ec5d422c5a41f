"""Public numbers as HTML, CSV and terminal text: one module for each output.

`html`, `charts` and `format` are the building blocks. Pages are built from an `Outcome`, a
forecast or a `RoundState`, and compute nothing a second time.
Never here: a private number, a clock, a socket, or a file other than the style sheet.
"""
