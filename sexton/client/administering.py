"""What administrators request: tokens and settings."""

from sexton.client.api_call import ApiCall, url_path, url_query
from sexton.protocol.access import (
    CreatedToken,
    NewToken,
    ShownToken,
    TokenList,
    TokenRenewal,
)
from sexton.protocol.settings import NewSetting, SettingChange, SettingList


def tokens() -> ApiCall[TokenList]:
    """Return every token without its secret."""
    return ApiCall("GET", "/v1/tokens", TokenList)


def create_token(scope: str, days: int = 90, note: str = "") -> ApiCall[CreatedToken]:
    """Create a token; its secret is returned once."""
    body = NewToken(scope=scope, days=days, note=note)
    return ApiCall("POST", "/v1/tokens", CreatedToken, body, repeatable=False)


def renew_token(token: str, days: int = 90) -> ApiCall[ShownToken]:
    """Let a token end so many days from now."""
    return ApiCall("POST", url_path("tokens", token, "renew"), ShownToken, TokenRenewal(days=days))


def revoke_token(token: str) -> ApiCall[ShownToken]:
    """Revoke a token now."""
    return ApiCall("DELETE", url_path("tokens", token), ShownToken)


def settings(instance: str = "") -> ApiCall[SettingList]:
    """Return the settings in force; of an instance, those that may differ between instances."""
    return ApiCall("GET", "/v1/settings", SettingList, query=url_query(instance=instance or None))


def preview_setting(key: str, value: str | None, instance: str = "") -> ApiCall[SettingChange]:
    """Return what another value would change; None: the value of environment, file or default."""
    query = url_query(value=value, instance=instance or None)
    return ApiCall("GET", url_path("settings", key, "preview"), SettingChange, query=query)


def set_setting(key: str, value: str, instance: str = "", reason: str = "") -> ApiCall[SettingChange]:
    """Set a value for all workers, and return what it changes."""
    query, body = url_query(instance=instance or None), NewSetting(value=value, reason=reason)
    return ApiCall("PUT", url_path("settings", key), SettingChange, body, query=query)


def unset_setting(key: str, instance: str = "") -> ApiCall[SettingChange]:
    """Remove a value of the database, so that environment, file and default apply again."""
    query = url_query(instance=instance or None)
    return ApiCall("DELETE", url_path("settings", key), SettingChange, query=query)
