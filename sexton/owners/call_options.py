"""The options of an owner, or of a front end, that answers over HTTP. It imports no HTTP client."""

from sexton.kernel.message import Message


class CallOptions(Message):
    """Where a program answers, and the credentials for it. Files are read on the machine that calls, at each call.

    ``url``: where it answers, without ``/v1``. ``token_file``: a bearer token. ``certificate_file``, ``key_file``: a
    client certificate in PEM. ``ca_certs``: the authorities of its certificate; by default those of the settings.
    """

    url: str
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    ca_certs: str = ""
