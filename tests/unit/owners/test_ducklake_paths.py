"""Which data paths of a DuckLake can be a vault."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.owners.ducklake.model import vault_of


def test_a_data_path_of_two_spellings_is_refused() -> None:
    for path in (
        "/srv//data/",
        "/srv/./data/",
        "/srv/../data/",
        "s3://b//p/",
        "s3://b/p/?x/",
        "data/",
        "/",
        "gs://b/p/",
    ):
        with pytest.raises(BadInput, match="data path"):
            vault_of("lake", "lake", path)
