"""Every method that the synchronous and the asynchronous client have in common, declared once.

The functions on the right define parameters, results and errors.
"""

from sexton.client import administering, binlog_calls, calls, operating, registering
from sexton.client.sender import ApiMethod


class ApiMethods:
    """The requests of the API as methods."""

    status = ApiMethod(calls.status)
    blockers = ApiMethod(calls.blockers)
    why = ApiMethod(calls.why)
    stop = ApiMethod(calls.stop)
    start = ApiMethod(calls.start)
    plan = ApiMethod(calls.plan)
    apply = ApiMethod(calls.apply)
    query = ApiMethod(calls.query)
    operate = ApiMethod(calls.operate)

    instances = ApiMethod(operating.instances)
    enable = ApiMethod(operating.enable)
    observe = ApiMethod(operating.observe)
    vaults = ApiMethod(operating.vaults)
    cap = ApiMethod(operating.cap)
    clear_cap = ApiMethod(operating.clear_cap)
    pace = ApiMethod(operating.pace)
    plans = ApiMethod(operating.plans)
    reject = ApiMethod(operating.reject)
    rounds = ApiMethod(operating.rounds)
    round_ = ApiMethod(operating.round_)
    run_round = ApiMethod(operating.run_round)
    signal_round = ApiMethod(operating.signal_round)
    run_check = ApiMethod(operating.run_check)
    accept_finding = ApiMethod(operating.accept_finding)
    repair = ApiMethod(operating.repair)
    holds = ApiMethod(operating.holds)
    hold = ApiMethod(operating.hold)
    release_hold = ApiMethod(operating.release_hold)
    marks = ApiMethod(operating.marks)
    retry_quarantined = ApiMethod(operating.retry_quarantined)
    discard = ApiMethod(operating.discard)
    lists = ApiMethod(operating.lists)
    add_to_list = ApiMethod(operating.add_to_list)
    remove_from_list = ApiMethod(operating.remove_from_list)
    call_log = ApiMethod(operating.call_log)

    tokens = ApiMethod(administering.tokens)
    create_token = ApiMethod(administering.create_token)
    renew_token = ApiMethod(administering.renew_token)
    revoke_token = ApiMethod(administering.revoke_token)
    users = ApiMethod(administering.users)
    add_user = ApiMethod(administering.add_user)
    set_password = ApiMethod(administering.set_password)
    remove_user = ApiMethod(administering.remove_user)
    settings = ApiMethod(administering.settings)
    preview_setting = ApiMethod(administering.preview_setting)
    set_setting = ApiMethod(administering.set_setting)
    unset_setting = ApiMethod(administering.unset_setting)

    watermark = ApiMethod(calls.watermark)
    protections = ApiMethod(calls.protections)
    register = ApiMethod(registering.register)
    renew = ApiMethod(calls.renew)
    finish = ApiMethod(calls.finish)
    release = ApiMethod(calls.release)

    topic = ApiMethod(calls.topic)
    map_regions = ApiMethod(calls.map_regions)
    heartbeat = ApiMethod(calls.heartbeat)
    purge = ApiMethod(calls.purge)

    logs = ApiMethod(binlog_calls.logs)
    keep_log = ApiMethod(binlog_calls.keep_log)
    add_records = ApiMethod(binlog_calls.add_records)
    read_records = ApiMethod(binlog_calls.read_records)
    consumers = ApiMethod(binlog_calls.consumers)
    register_consumer = ApiMethod(binlog_calls.register_consumer)
    acknowledge = ApiMethod(binlog_calls.acknowledge)
    remove_consumer = ApiMethod(binlog_calls.remove_consumer)
    drop_table = ApiMethod(binlog_calls.drop_table)
    drop_database = ApiMethod(binlog_calls.drop_database)

    place_replicas = ApiMethod(binlog_calls.place_replicas)
    report = ApiMethod(binlog_calls.report)
    decommission = ApiMethod(binlog_calls.decommission)
    unwell = ApiMethod(binlog_calls.unwell)
    replicas = ApiMethod(binlog_calls.replicas)
    full_copy = ApiMethod(binlog_calls.full_copy)
    cuts = ApiMethod(binlog_calls.cuts)
    acknowledge_cuts = ApiMethod(binlog_calls.acknowledge_cuts)

    journal = ApiMethod(binlog_calls.journal)
    snapshot = ApiMethod(binlog_calls.snapshot)
