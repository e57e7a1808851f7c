"""The owner ``catalog``: the metadata of a lakehouse, in tables beside Sexton's."""

from collections.abc import Sequence

from sexton.owners.catalog import tables
from sexton.owners.catalog.model import FILE_NAME, CatalogOptions
from sexton.owners.plugin import OwnerContext, OwnerKind, OwnerOperation, OwnerPlugin
from sexton.owners.port import Owner


def _build(context: OwnerContext) -> Owner:
    from sexton.owners.catalog.owner import CatalogOwner

    return CatalogOwner(context)


def _operations() -> Sequence[OwnerOperation]:
    from sexton.owners.catalog.store import OPERATIONS

    return OPERATIONS


PLUGIN = OwnerPlugin(
    about="tables, partitions and tablets whose metadata Sexton keeps: the reference catalog",
    build=_build,
    kinds=(
        OwnerKind("table", setting="dropped_index_retention_seconds", has_files=False),
        OwnerKind("index", setting="dropped_index_retention_seconds", has_files=False),
        OwnerKind("partition", setting="dropped_partition_retention_seconds", has_files=False),
        OwnerKind("tablet", retention_seconds=0, fixed=True),
        OwnerKind("txn_label", setting="label_keep_max_second", has_files=False, limited=False),
    ),
    # The deletion of a tablet's prefix includes its rowsets' files. A compaction's inputs need the record of its
    # output, dropped or not: it shows that another rowset has their versions.
    after={
        **dict.fromkeys(("compacted", "prepared", "index", "partition"), ("tablet",)),
        "dropped": ("compacted", "tablet"),
        "table": ("index", "partition", "tablet"),
    },
    create_tables=tables.create,
    forget_records=tables.forget,
    options=CatalogOptions,
    knows_live=True,
    key_pattern=FILE_NAME,
    operations=_operations,
    no_underscore="its files are named TABLET/ROWSET_SEGMENT.dat",
)
