"""Documents become baseline tables, strictly and by declared labels; their figures are computed from each other.

The walk of a figure: ``tables`` gives cells and reads their numbers and names, ``facts`` say what columns, rows, titles
and headings are called and what no cell says, ``rows`` makes drafts and joins settings. ``document`` completes them,
``arithmetic`` finds what contradicts itself, ``writer`` writes the YAML. ``cards`` reads verification cards.
"""
