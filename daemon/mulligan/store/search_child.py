"""Building the search index beside the daemon: `python -m mulligan.store.search_child DIRECTORY BUDGET`.

Reads the catalogue and the segments of a store and writes its index, until nothing is behind or the budget is used up.
It may be killed at any moment: what a step took in is kept, the next run goes on from there.
"""

from __future__ import annotations

import os
import sys

from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents
from mulligan.store.search_index import SearchIndex

_NICENESS = 19
#: Rows of a step: many are written at less cost, few keep a question's own step waiting for less long.
_ROWS = 200


def main(arguments: list[str]) -> int:
    """Build until it is done."""
    os.nice(_NICENESS)
    directory, budget = arguments
    catalogue = Catalogue(connect(os.path.join(directory, "catalogue.db")))
    contents = Contents(os.path.join(directory, "content_pool"), lambda: catalogue)
    index = SearchIndex(directory, catalogue, contents, int(budget))
    parent = os.getppid()
    index.build(lambda: os.getppid() == parent, _ROWS)  # whoever wanted it may be gone
    index.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
