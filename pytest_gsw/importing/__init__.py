"""Documents become baseline tables, strictly and by declared labels; their figures are computed from each other.

The walk of a figure: ``markdown`` and ``html_tables`` give cells, ``labels`` say what columns, rows, titles and
headings are, ``cells`` read numbers and names, ``rows`` make drafts and join settings. ``document`` completes each
``row`` with ``facts``, ``arithmetic`` finds what contradicts itself, ``writer`` writes the YAML. ``cards`` read
verification cards.
"""
