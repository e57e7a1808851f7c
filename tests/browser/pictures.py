"""Take a picture of every page, narrow and wide, light and dark: ``python -m tests.browser.pictures DIRECTORY``."""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from sexton.client import Sexton
from sexton.contract import NewMark
from sexton.operators.controls.model import ControlKind
from sexton.replication.binlog.model import BinlogSettings
from sexton.storage.kinds import vault_place
from sexton.wal.model import Mode
from sexton.wal.policy import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.sql.embedded_log import EmbeddedLog
from tests.integration.check.conftest import Owned, file_keys, live_view
from tests.integration.interfaces.api.test_operating import quarantine
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pacing.test_shared_rates import exchange, pace_report
from tests.integration.replication.binlog_instance import BinlogInstance
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig, put

PAGES = {
    "overview": "",
    "plans": "plans?instance=shop",
    "plan": "plans/{plan}",
    "blockers": "blockers?instance=shop&hold=prefix",
    "rounds": "rounds?instance=shop",
    "round": "rounds/{round}?instance=shop",
    "why": "why?instance=shop&key=orders-2025",
    "quarantine": "quarantine?instance=shop",
    "checks": "checks?instance=shop",
    "vaults": "vaults?instance=shop&prove=true",
    "topics": "topics?instance=shop",
    "topic": "topics/orders-wal",
    "binlogs": "binlogs?instance=shop",
    "settings": "settings?instance=shop&key=recycle.max_delete_objects&value=50000&q=seconds",
    "access": "access",
    "operations": "operations?instance=shop",
    "log": "log?instance=shop",
    "rounds-of-all": "rounds",
    "vaults-of-all": "vaults",
    "operations-of-all": "operations",
    "binlogs-of-all": "binlogs",
    "start": "start?instance=depot",
    "refused": "plans/4711",
    "login": "login",
}
WIDTHS, SCHEMES = (375, 1600), ("light", "dark")


def furnish(rig: Owned, api: Api, root: Path) -> dict[str, int]:
    """Give the deployment something for every page; return the numbers of a plan and of a round."""
    rig.write_live(*file_keys(40))
    for n in range(30):
        put(root, f"data/old/{n}.dat")
        rig.mark("dropped", NewMark(id=f"orders-2024-{n}", vault="disk", keys=(f"data/old/{n}.dat",), bytes=48 << 20))
    rig.later(10_801)
    round_ = rig.round().round
    for name in ("a", "b"):
        rig.write_old(f"data/t9/{name}_0.dat")
    for _ in range(3):
        rig.check()
        rig.later(2 * 86_400)
    rig.instance("depot").local(root.with_name("depot"), "cold", "depot")
    for n in range(12):
        put(root, f"data/new/{n}.dat")
        rig.mark("dropped", NewMark(id=f"events-{n}", vault="disk", keys=(f"data/new/{n}.dat",), bytes=73 << 20))
    rig.mark("dropped", NewMark(id="orders-2025", vault="disk", prefix="data/orders-2025/"))
    rig.later(10_801)
    quarantine(rig, "ACCESS_DENIED", "q1", "q2")
    quarantine(rig, "CHANGED", "q3")
    protect(rig, "copy:lisbon", "data/new/3.dat")
    with Sexton(api.url, api.token("operate@*"), patience_seconds=5) as ada:
        ada.hold("shop", prefix="disk/data/new/1", seconds=604_800, reason="the auditors ask for it")
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "ada").id
    [spec] = rig.registry.vaults("shop")
    place = vault_place(spec, "")
    exchange(rig.all_stores.paces, "worker-1", pace_report(2_750, place=place, keys=48_210, requests=51, throttled=3))
    rig.all_stores.paces.put_cap("shop/disk", 3_000, "the bucket is shared", "ada")
    _topics(rig, api)
    binlogs = BinlogInstance(rig.db, BinlogSettings(free_records=3))
    binlogs.configure_log(86_400)
    for seq in range(1, 6):
        binlogs.commit(seq, binlogs.now - 2 * 86_400 * 1_000)
    binlogs.commit(6)
    binlogs.service.consumers.register("shop", "lisbon", "sales", after=3)
    binlogs.cut_expired()
    rig.all_stores.setting_rows.put("recycle.max_delete_objects", "100000", "shop", "after the migration", "ada")
    rig.controls.put(ControlKind.STOP, "depot", "the bucket is being moved", "eve")
    return {"plan": plan, "round": round_}


def _topics(rig: Rig, api: Api) -> None:
    log, wal = EmbeddedLog(rig.db), api.app.state.service.stores.wal
    log.create("orders-wal")
    nodes = {"r1": "n1", "r2": "n2", "r3": "n3"}
    mappings = tuple(RegionMapping(region=region, first=0, node=node) for region, node in nodes.items())
    wal.maps.put(MapOrder(instance="shop", topic="orders-wal", generation=1, regions=mappings))
    log.append("orders-wal", [b"x" * 200] * 400)
    for region, flushed in (("r1", 380), ("r2", 45), ("r3", 310)):
        report = LeaderReport(topic="orders-wal", region=region, epoch=0, streams=(Stream(flushed=flushed),))
        wal.heartbeats.record_reports("shop", nodes[region], [report], f"http://127.0.0.1:1{region[1]}")
    wal.store.enable("orders-wal", Mode.DELETE, "shop")
    wal.purger.preview(["orders-wal"])


def take(browser: Browser, api: Api, numbers: dict[str, int], into: Path) -> None:
    """Take the pictures of one session."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            size = {"width": width, "height": 900}
            context = browser.new_context(base_url=api.url, viewport=size, color_scheme=scheme)
            page = context.new_page()
            for name in sorted(PAGES, key=lambda name: name != "login"):
                page.goto(f"/console/{PAGES[name].format(**numbers)}".rstrip("/"))
                page.wait_for_timeout(100)
                page.screenshot(path=into / f"{name}-{width}-{scheme}.png", full_page=True)
                if name == "login":
                    page.fill("#token", api.token("admin"))
                    page.click("text=Log in")
                    page.wait_for_selector("nav.menu")
            context.close()


def main(into: Path) -> None:
    """Take every picture."""
    into.mkdir(parents=True, exist_ok=True)
    path = shutil.which("chromium-headless-shell")
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        root = Path(home) / "v"
        rig = Owned(new_database()).register(root)
        with live_view(rig), Api(rig, console=True) as api:
            numbers = furnish(rig, api, root)
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            take(browser, api, numbers, into)
            browser.close()
        rig.db.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
