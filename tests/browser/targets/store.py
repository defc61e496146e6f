#!/usr/bin/env python3
"""
A store for the browser test of the Fleet page: a ClickHouse server of its own with some machines in it. Prints
its address, and ends when its standard input does.

checkout: 20 hosts, versions 1.41 and 1.42 (which holds more at `grown`), 12 days, `leaky` grows; host h07 holds
four times as much of `grown`.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import rooms
import fleet
from lib import clickhouse, hw

box = hw.Box()
stacks = {1: ["main", "serve", "grown", "malloc"], 2: ["main", "serve", "leaky", "malloc"],
          3: ["main", "<script>alert(1)</script>", "malloc"]}
rows = []
for day in range(12):
    for host in range(20):
        common = dict(host=f"h{host:02}", version=f"1.4{1 + host % 2}", pid=7, ts=fleet.NOW - fleet.DAY * (12 - day) + 43200 + host,
                      labels={"pod": "it's <b>"} if host < 5 else {}, alloc_space=4096, alloc_objects=1)
        size = (30 if host % 2 else 10) << 20
        rows.append(fleet.row(stack=1, space=size * (4 if host == 7 else 1) + host, objects=100, variance=size * 4096.0,
                              variance_objects=25.0, **common))
        rows.append(fleet.row(stack=2, space=(day + 1) << 22, objects=day + 1, variance=4096.0 ** 2, **common))
        rows.append(fleet.row(stack=3, space=1 << 18, objects=3, variance=4096.0 ** 2, **common))
with clickhouse.Server(box.path("store")) as server:
    fleet.fill(box, server, rows, stacks)
    print(server.url("profiles"), flush=True)
    sys.stdin.read()
box.close()
