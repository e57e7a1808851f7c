"""Stages: folders into which users upload files, which copy jobs then load into tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select, update

from sexton import contract
from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput
from sexton.owners.catalog import discards, undrops
from sexton.owners.catalog.errors import AlreadyDropped, WrongState
from sexton.owners.catalog.layout import check_id, stage_prefix, staged_key
from sexton.owners.catalog.model import MOST_CHARACTERS, StagedFile
from sexton.owners.catalog.records import (
    CatalogRecords,
    add,
    check_some,
    check_unused,
    check_vault,
    ensure_found,
    lock_against_drop,
    new_id,
)
from sexton.owners.catalog.scope import CatalogTransaction


class Stages(CatalogRecords):
    """Internal stages, whose files Sexton deletes, and external ones, whose files it never touches."""

    def create_stage(self, stage: str, vault: str) -> None:
        """Create an internal stage, whose files are uploaded to a vault."""
        check_id(stage)
        with self._write() as tx:
            check_vault(tx, vault)
            check_unused(tx, "stage", stage)
            add(tx, tx.t.stages, [{"id": stage, "vault": vault}])

    def create_external_stage(self, stage: str) -> None:
        """Create a stage for files of the user's own bucket."""
        check_id(stage)
        with self._write() as tx:
            check_unused(tx, "stage", stage)
            add(tx, tx.t.stages, [{"id": stage}])

    def announce_files(self, stage: str, files: Mapping[str, int]) -> list[StagedFile]:
        """Announce files that a user is about to upload to an internal stage; return where to upload each.

        Each call gives new keys, also for a name that was uploaded before: so a deletion never meets another file. A
        file that no copy job loads is deleted after ``internal_stage_objects_expire_time_second``.

        Args:
            stage: an internal stage.
            files: name → bytes.

        Raises:
            WrongState: the stage is external.
        """
        check_some("files", files)
        check_text(*files)
        if wrong := [name for name in files if not 0 < len(name) <= MOST_CHARACTERS or files[name] < 0]:
            raise BadInput(
                f"{wrong[0][:50]!r}: a name has 1 to {MOST_CHARACTERS} characters, and a file 0 bytes or more"
            )
        with self._write() as tx:
            row = locked_stage(tx, stage)
            if row.vault is None:
                raise WrongState(f"stage {stage} is external: its files are uploaded to the user's own bucket")
            staged = [
                StagedFile(id=id_, name=name, vault=row.vault, key=staged_key(stage, id_))
                for name, id_ in ((name, new_id()) for name in files)
            ]
            rows = [{"id": f.id, "stage_id": stage, "name": f.name, "bytes": files[f.name]} for f in staged]
            add(tx, tx.t.staged_files, rows)
            mark_files(tx, rows)
            return staged

    def staged_files(self, stage: str) -> list[StagedFile]:
        """Return the files of a stage that are not deleted yet, by name."""
        with self._read() as tx:
            file, own = tx.t.staged_files, tx.t.stages
            query = select(file.c.id, file.c.name, own.c.vault).join(own, tx.is_own_stage)
            rows = tx.c.execute(query.where(tx.in_instance(file.c.stage_id, [stage])).order_by(file.c.name, file.c.id))
            return [StagedFile(id=r.id, name=r.name, vault=r.vault, key=staged_key(stage, r.id)) for r in rows]

    def drop_stage(self, stage: str) -> None:
        """Drop a stage; all its files are deleted, except while a copy job still reads them."""
        with self._write() as tx:
            t = tx.t.stages
            is_there = [tx.in_instance(t.c.id, [stage]), ~t.c.dropped]
            if tx.c.execute(update(t).where(*is_there).values(dropped=True)).rowcount != 1:
                ensure_found(t, [stage], tx.ids(select(t.c.id).where(tx.in_instance(t.c.id, [stage]))))
                raise AlreadyDropped(f"stage {stage} is dropped already")
            [vault] = tx.c.execute(select(t.c.vault).where(tx.in_instance(t.c.id, [stage]))).scalars()
            prefix = None if vault is None else stage_prefix(stage)
            discards.mark(tx, "stage", [contract.NewMark(id=stage, vault=vault, prefix=prefix)])

    def undrop_stage(self, stage: str) -> None:
        """Restore a stage with its files.

        Raises:
            contract.Refused: it is claimed or deleted.
        """
        with self._write() as tx:
            undrops.begin(tx)
            undrops.undrop(tx, undrops.Dropped("stage", tx.t.stages, [stage]))


def locked_stage(tx: CatalogTransaction, stage: str) -> Any:
    """Return the row of a stage, which is not dropped before this transaction ends.

    Raises as ``lock_against_drop`` does.
    """
    lock_against_drop(tx, tx.t.stages, [stage])
    return tx.c.execute(select(tx.t.stages).where(tx.in_instance(tx.t.stages.c.id, [stage]))).one()


def mark_files(tx: CatalogTransaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Mark staged files (id, stage_id, bytes): from now on they wait for a copy job, or for their retention."""
    new_marks = [
        contract.NewMark(id=row["id"], vault=None, bytes=row["bytes"], parent=("stage", row["stage_id"]))
        for row in rows
    ]
    discards.mark(tx, "stage_file", new_marks)
