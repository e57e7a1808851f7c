"""Words that operators type and that are no command, with the command that they mean; plain words for wrong usage."""

import re

_HOLDS = {f"hold {scope}": f"sexton hold add INSTANCE --{scope} …" for scope in ("table", "mark", "prefix")}

HINTS = _HOLDS | {
    "holds": "sexton hold list; everything that blocks deletions: sexton blockers",
    "calls": "sexton log",
    "audit": "sexton deletions ROUND",
    "round objects": "sexton deletions ROUND",
    "lists list": "sexton lists show",
    "plan --list": "sexton plan list",
    "plan --reject": "sexton plan reject PLAN --reason TEXT",
    "plan apply": "sexton apply PLAN",
    "plan approve": "sexton apply PLAN",
    "approve": "sexton apply PLAN",
    "reject": "sexton plan reject PLAN --reason TEXT",
    "instance enable": "sexton enable INSTANCE",
    "disable": "sexton instance observe INSTANCE",
    "instance disable": "sexton instance observe INSTANCE",
    "mark": "sexton marks list",
    "delete": "sexton plan new INSTANCE, then: sexton apply PLAN",
    "gc": "sexton round run INSTANCE; of binlogs: sexton binlog gc",
    "run": "sexton round run INSTANCE",
    "round start": "sexton round run INSTANCE",
    "round stop": "sexton round cancel INSTANCE; to stop deletion: sexton stop INSTANCE --reason TEXT",
    "pause": "sexton round pause INSTANCE; no more rounds: sexton schedules pause --reason TEXT",
    "resume": "sexton round resume INSTANCE; after a stop: sexton start INSTANCE",
    "cancel": "sexton round cancel INSTANCE",
    "restore": "sexton undelete INSTANCE; after a restore of the database: sexton after-restore --reason TEXT",
    "pace clear": "sexton vault uncap INSTANCE VAULT",
    "blacklist": "sexton lists add blacklist INSTANCE --reason TEXT",
    "whitelist": "sexton lists add whitelist INSTANCE",
    "window": "sexton lists add windows 'mon-fri 22:00-06:00 UTC'",
    "wal skip-flush": "sexton wal now TOPIC",
    "check reset-baseline": "sexton check rebase INSTANCE --reason TEXT",
    "settings list": "sexton settings show",
    "explain": "sexton why KEY|ID",
    "history": "sexton log",
    "version": "sexton --version",
    "help": "sexton --help",
}
"""What is typed behind `sexton` → what to type instead."""

NOT_TEXT = "a word of the command has bytes that are no text here; use a UTF-8 locale, e.g. LC_ALL=C.UTF-8"


def plain_usage(message: str) -> str:
    """Return a message of the parser about wrong usage in plain words."""
    if re.fullmatch(r"No such option: -[0-9]", message):
        return f"{message} (no value may be negative)"
    message = message.replace("Value error, ", "").replace("Input should be ", "it must be ")
    message = message.replace("a valid integer, unable to parse string as an integer", "a whole number")
    return message.replace("a valid number, unable to parse string as a number", "a number")
