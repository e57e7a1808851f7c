"""Read the settings in force, as workers, commands and the API use them."""

from config.live import LiveSettings
from config.settings import Settings
from sexton.database.engine import Database
from sexton.runtime.stores import DeploymentStores


def live_settings(db: Database, settings: Settings) -> LiveSettings:
    """Return the settings in force: those of a process, and over them those of its database."""
    return LiveSettings(settings, DeploymentStores(db, settings.engine_settings()).setting_rows.all)
