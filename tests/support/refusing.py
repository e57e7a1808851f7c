"""Make PostgreSQL refuse rows of a table, as a full disk or a lost right does."""

from sqlalchemy import text

from sexton.database.engine import Database


def refuse_inserts(db: Database, table: str, condition: str = "true") -> None:
    """Refuse each new row of one of Sexton's tables for which a condition on NEW holds."""
    with db.write() as c:
        c.execute(
            text(
                "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$"
            )
        )
        c.execute(
            text(
                f"CREATE TRIGGER refuse BEFORE INSERT ON sexton.{table} FOR EACH ROW WHEN ({condition}) "
                "EXECUTE FUNCTION public.refuse()"
            )
        )
