"""The schema's versions are those of the migrations."""

from alembic.config import Config
from alembic.script import ScriptDirectory

from sexton.database.schema import VERSIONS


def test_versions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", "sexton.database:migrations")
    revisions = ScriptDirectory.from_config(config).walk_revisions()

    assert [*VERSIONS] == [revision.revision for revision in revisions][::-1]
