"""Recipe READMEs become baseline tables: read, joined, checked, and written as YAML.

The layout follows the data: ``markdown`` finds tables and prose; ``cells``, ``labels`` and ``titles`` know what they
say; ``shapes`` and ``rows`` make drafts of rows; ``prose`` reads formulas and steps; ``join`` and ``complete`` make
rows of all that and of the ``facts`` that no document states; ``files`` names and groups them; ``emit`` writes YAML.
"""

from pytest_gsw.documents.importing.document import Imported, import_document
from pytest_gsw.documents.importing.draft import Remark
from pytest_gsw.documents.importing.facts import DocumentFacts, read_facts
from pytest_gsw.documents.importing.markdown import Unread

__all__ = ["DocumentFacts", "Imported", "Remark", "Unread", "import_document", "read_facts"]
