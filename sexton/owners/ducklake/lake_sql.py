"""SQL expressions about the files of a DuckLake that its views and triggers share. Pure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from sexton.owners.ducklake.model import ELSEWHERE, Lake
from sexton.storage.model import RESERVED_PREFIX

ENDINGS = (".parquet", "-delete.parquet", ".puffin", "-delete.puffin")
"""What follows the UUID in the names of files that DuckLake names itself."""
MOST_KEY_BYTES = 1_024
"""Of a key of a mark, as in S3."""
UNCLEAR = (
    "SX006 a file that may have two paths, is in _sexton/, or whose key has more than 1024 bytes, is not registered: "
    "write the path of its only name, without //, ., .., links and parameters, and give a copy another name"
)


def quoted(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class LakeSql(ABC):
    """The SQL of one lake in one dialect. ``path`` is always an expression for the whole path of a file."""

    lake: Lake

    @abstractmethod
    def create_views(self) -> list[str]:
        """Return the statements that create views which only this dialect needs."""

    @abstractmethod
    def live_files(self) -> str:
        """Return the query of the registered files, as the live view shows them; an empty key: its place is unknown."""

    @abstractmethod
    def registered_files(self) -> str:
        """Return the query of the registered files: ``path``, and ``uuid``, NULL where DuckLake did not name it."""

    @abstractmethod
    def indexes(self) -> dict[str, str]:
        """Return the indexes in which the triggers look up files: name → table and columns."""

    @abstractmethod
    def create_triggers(self) -> list[str]:
        """Return the statements that create the triggers."""

    @abstractmethod
    def drop_triggers(self) -> list[str]:
        """Return the statements that drop the triggers, as far as they are there."""

    @abstractmethod
    def pass_again(self) -> list[str]:
        """Return the statements that have rows which the lake scheduled before pass the trigger."""

    @abstractmethod
    def take_back(self) -> list[str]:
        """Return the statements that give the waiting marks back to the lake's list; they fail for a claimed mark."""

    @abstractmethod
    def uuid(self, path: str) -> str:
        """Return the UUID in the name of a file; NULL: DuckLake did not name it. A regular expression is far slower."""

    @abstractmethod
    def octets(self, text: str) -> str:
        """Return the expression for the number of bytes of a text."""

    @abstractmethod
    def rest(self, text: str, characters: int) -> str:
        """Return the expression for what follows the first characters of a text."""

    @abstractmethod
    def position(self, path: str, part: str) -> str:
        """Return the expression for the place of a literal in a path; 0: it is not in it."""

    def table(self, name: str) -> str:
        """Return the name of a table or view of the lake."""
        return f'"{self.lake.schema}".{name}' if self.lake.schema else name

    @property
    @abstractmethod
    def each_once(self) -> str:
        """What keeps the view of directories from repeating one for each version of its table, where that matters."""

    @property
    def root(self) -> str:
        """The data path, as a literal."""
        return quoted(self.lake.data_path)

    def is_inside(self, path: str) -> str:
        """Return the condition that a file is below the data path."""
        return f"substr({path}, 1, {len(self.lake.data_path)}) = {self.root}"

    def is_unclear(self, path: str) -> str:
        """Return the condition that a file may have another path, too, or that no mark can name it.

        Clear are absolute local paths and, for a lake in a bucket, ``s3://`` URLs, without ``//``, ``.``, ``..`` and
        parameters; for a lake in a directory also every URL of another scheme than ``file``.
        """
        dots = f"{self.position(path, '/../')} > 0 OR {self.position(path, '/./')} > 0"
        is_local = f"substr({path}, 1, 1) = '/'"
        local = f"{self.position(path, '//')} > 0"
        if self.lake.data_path.startswith("/"):
            other = f"substr({path}, 1, 5) = 'file:' OR {self.position(path, '://')} = 0"
        else:
            doubled = f"{self.position(f'substr({path}, 6)', '//')} > 0"
            other = f"substr({path}, 1, 5) <> 's3://' OR {doubled} OR {self.position(path, '?')} > 0"
        most = f"CASE WHEN {self.is_inside(path)} THEN {MOST_KEY_BYTES + len(self.lake.data_path.encode())}"
        is_long = f"{self.octets(path)} > {most} ELSE {MOST_KEY_BYTES} END"
        own = self.lake.data_path + RESERVED_PREFIX
        is_own = f"substr({path}, 1, {len(own)}) = {quoted(own)}"
        return f"({is_long} OR {is_own} OR {dots} OR CASE WHEN {is_local} THEN {local} ELSE {other} END)"

    def is_in_vault(self, path: str) -> str:
        """Return the condition that a file is in the lake's vault: below the data path, and under one path only."""
        return f"{self.is_inside(path)} AND NOT {self.is_unclear(path)}"

    def vault(self, path: str) -> str:
        """Return the vault of a file; ``ELSEWHERE`` if Sexton has none for it."""
        return f"CASE WHEN {self.is_in_vault(path)} THEN {quoted(self.lake.vault)} ELSE '{ELSEWHERE}' END"

    def key(self, path: str, is_inside: str = "") -> str:
        """Return the key of a file in its vault; elsewhere: its path without the first slash.

        Args:
            path: of the file.
            is_inside: the expression for whether it is in the lake's vault, where that is known already.
        """
        below = self.rest(path, len(self.lake.data_path))
        return f"CASE WHEN {is_inside or self.is_in_vault(path)} THEN {below} ELSE ltrim({path}, '/') END"

    @property
    @abstractmethod
    def marks(self) -> str:
        """The table of marks ``m`` with the condition that they are of this lake, and not orphans."""

    @abstractmethod
    def marked_path(self) -> str:
        """Return the expression for the whole path of the file of a mark ``m``."""

    def whole_path(self, key: str) -> str:
        """Return the path of a marked file, as rows with an absolute path have it."""
        is_inside = f"m.vault = {quoted(self.lake.vault)}"
        return f"CASE WHEN {is_inside} THEN {self.root} || {key} ELSE {self.scheduled_path(key)} END"

    def scheduled_path(self, key: str) -> str:
        """Return the path of a marked file as the lake's own list has it."""
        is_url = f"{self.position(key, '://')} > 0"
        return f"CASE WHEN m.vault = {quoted(self.lake.vault)} OR {is_url} THEN {key} ELSE '/' || {key} END"

    def nearest(self, column: str, path: str, directories: str = "") -> str:
        """Return a column of the table in whose directory a file is; NULL: it is in none."""
        return (
            f"(SELECT place.{column} FROM {directories or self.table('sexton_directory')} place "
            f"WHERE substr({path}, 1, length(place.path)) = place.path "
            "ORDER BY length(place.path) DESC, place.table_id DESC LIMIT 1)"
        )
