#!/usr/bin/env python3
"""The templates of packaging/ci: their steps, executed by bash as a runner would, without a network."""
import json
import os
import sys
import xml.etree.ElementTree as ET

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw, steps

TEMPLATES = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../packaging/ci"))
# Keeps as many blocks of 1000 bytes as it is told.
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
static void keep_rows(int n) { for (int i = 0; i < n; i++) memset(malloc(1000), 1, 1000); }
int main(int argc, char **argv) { keep_rows(atoi(argv[argc - 1])); _Exit(0); }
"""


def prepare(box):
    with open(box.path("rows.c"), "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    box.run(["cc", "-O0", "-w", "-fno-omit-frame-pointer", "-o", "rows", "rows.c"])
    return {**os.environ, "PATH": os.path.dirname(hw.tool("heapwise")) + ":" + os.environ["PATH"], "NO_COLOR": "1"}


def looked(box, directory, grew):
    """What a comparison leaves."""
    at = lambda name: box.path(os.path.join(directory, name))
    text = open(at("diff.md"), encoding="utf-8").read()
    hw.true(("FAILED" in text) == grew and ("keep_rows" in text) == grew, text)
    hw.equal(ET.parse(at("diff.xml")).getroot().get("failures"), str(int(grew)), "failures")
    results = json.load(open(at("diff.sarif"), encoding="utf-8"))["runs"][0]["results"]
    hw.equal(len(results) > 0, grew, "results of SARIF")


def github(box):
    env = prepare(box)
    run = lambda rows, **inputs: steps.run_action(
        os.path.join(TEMPLATES, "github/action.yml"),
        {"command": f"true; ./rows {rows}", "interval": "1", **inputs}, box.dir, env)
    status, said, values, summary = run(2000)
    hw.equal(status, 0, said)
    hw.true("No trace of the base yet" in summary, summary)
    hw.equal(values["steps.compare.outputs.grew"], "false", "grew")
    hw.true(os.path.getsize(box.path("heapwise-results/heap.html")) > 100000, "the page")
    os.makedirs(box.path("heapwise-base"))
    os.rename(box.path(values["steps.record.outputs.trace"]), box.path("heapwise-base/heap.trace"))
    status, said, values, summary = run(2000)
    hw.equal((status, values["steps.compare.outputs.grew"]), (0, "false"), said)
    looked(box, "heapwise-results", grew=False)
    status, said, values, summary = run(3000)
    hw.equal((status, values["steps.compare.outputs.grew"]), (1, "true"), said)
    hw.true("::error title=heapwise::" in said and "keep_rows" in summary, said + summary)
    looked(box, "heapwise-results", grew=True)
    status, said, _, _ = run(3000, **{"fail-above": "10M"})
    hw.equal(status, 0, said)
    # Inputs are data: nothing of them is run but the command.
    status, said, _, _ = run(2000, base="$(touch owned)`touch owned`'\";touch owned", results="a b; touch owned")
    hw.equal((status, os.path.exists(box.path("owned"))), (0, False), said)
    status, said, _, _ = run("2000; exit 7")
    hw.equal(status, 7, "the command's status")
    status, said, _, _ = run(2000, metric="nonsense")
    hw.true(status not in (0, 3), f"exit {status}: {said}")


def gitlab(box):
    env = prepare(box)
    run = lambda rows, branch, **more: steps.run_job(
        os.path.join(TEMPLATES, "gitlab.yml"), ".heapwise",
        {"HEAPWISE_COMMAND": f"./rows {rows}", "HEAPWISE_INTERVAL": "1", "CI_COMMIT_BRANCH": branch,
         "CI_DEFAULT_BRANCH": "main", **more}, box.dir, env)
    status, said, job = run(2000, "topic")
    hw.equal((status, os.path.exists(box.path("heapwise-base/heap.trace"))), (0, False), said)
    hw.true("No trace of the base yet" in said, said)
    status, said, _ = run(2000, "main")
    hw.equal((status, os.path.exists(box.path("heapwise-base/heap.trace"))), (0, True), said)
    status, said, _ = run(2000, "topic")
    hw.equal(status, 0, said)
    looked(box, "heapwise-results", grew=False)
    status, said, _ = run(3000, "topic")
    hw.equal(status, 1, said)
    hw.true("the heap grew by more than 5%" in said, said)
    looked(box, "heapwise-results", grew=True)
    hw.true(os.path.exists(box.path(job["artifacts"]["reports"]["junit"])), "the report that the template names")
    status, said, _ = run(3000, "topic", HEAPWISE_FAIL_ABOVE="10M")
    hw.equal(status, 0, said)


if __name__ == "__main__":
    hw.main({"github": github, "gitlab": gitlab})
