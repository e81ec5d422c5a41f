"""Public numbers as HTML, CSV and terminal text.

Pages are made from an `Outcome` or a forecast; nothing is computed a second time.
Never here: a clock, a socket, or a file other than the style sheet.
"""
