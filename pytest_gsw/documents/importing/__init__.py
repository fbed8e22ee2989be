"""Recipe READMEs become baseline tables: read, joined, checked, and written as YAML.

The walk of a figure, which is that of the data; ``document`` is the way through all of it:

1. The document: ``markdown`` finds headings, prose and tables, cut into cells by ``pipe_tables`` and ``html_tables``.
2. Its words: ``cells`` (a number and its unit), ``labels`` (of rows and columns), ``titles``, ``sentences``.
3. Rows of tables: ``arrange`` makes one run of each row or column, ``shapes`` tells what stands where, ``rows`` makes
   drafts (``draft``), ``row_names`` reads what the name of a run states.
4. What stands around a table: ``surroundings`` tells which text is about it, ``around`` which statement counts for
   a row, ``anywhere`` what the document states once for all, ``evidence`` what trains. ``prose`` reads how figures were
   made: formulas, steps, the statistic. ``join`` and ``lengths`` bring it to the rows.
5. Identities: ``identities`` prove cells, ``contradictions`` and ``settle`` decide which figure is wrong,
   ``model_flops`` chooses model FLOPs, ``refused`` and ``fit`` know what no table and no log can have.
6. Rows to write: ``complete`` makes a ``row`` with ``facts`` and ``directories``, or leaves blanks;
   ``cases`` names it, ``files`` groups, ``emit`` writes YAML; ``documented`` is for the audit.
"""

from pytest_gsw.documents.importing.cards import import_card
from pytest_gsw.documents.importing.document import Imported, import_document
from pytest_gsw.documents.importing.draft import Remark
from pytest_gsw.documents.importing.facts import DocumentFacts, facts_of, read_facts
from pytest_gsw.documents.importing.markdown import Unread

__all__ = ["DocumentFacts", "Imported", "Remark", "Unread", "facts_of", "import_card", "import_document", "read_facts"]
