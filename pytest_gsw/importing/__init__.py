"""Documents become baseline tables, strictly and by declared labels; their figures are checked against each other.

The path of a figure: ``tables`` gives cells and reads their numbers and names. ``facts`` has the declared meanings of
columns, rows, titles, headings and cells, and values that no cell has. ``rows`` makes drafts and joins settings.
``document`` completes them, ``arithmetic`` finds contradictions, ``writer`` writes the YAML. ``cards`` reads
verification cards.
"""
