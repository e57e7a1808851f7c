"""Build links to workflows in the Temporal UI."""

from urllib.parse import quote

from config.settings import Settings
from sexton.insight.views import RunningWork
from workflows import ids


def link_of(settings: Settings, work: RunningWork) -> str:
    """Return the address of the workflow that does a running work; empty where no UI is known."""
    temporal, deployment = settings.temporal, settings.require_deployment()
    if not temporal.ui_url:
        return ""
    workflow_id = {
        "round": ids.recycle(deployment, work.instance),
        "check": ids.check(deployment, work.instance),
        "purge": ids.purge_wal(deployment, work.name),
    }[work.work]
    return f"{temporal.ui_url.rstrip('/')}/namespaces/{temporal.namespace}/workflows/{quote(workflow_id, safe='')}"
