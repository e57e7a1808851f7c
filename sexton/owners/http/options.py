"""The options of the owner ``http``."""

from sexton.kernel.message import Message


class HttpOptions(Message):
    """What an instance with this owner is added with. Files are read on the machine that calls, at each call.

    ``url``: where the owner answers, without ``/v1``. ``token_file``: a bearer token. ``certificate_file``,
    ``key_file``: a client certificate in PEM. ``ca_certs``: the authorities of the owner's certificate; by default
    those of the settings.
    """

    url: str
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    ca_certs: str = ""
