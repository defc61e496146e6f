"""Runs the steps of pipeline templates without their service: reads the templates and runs their steps by bash."""
import os
import re
import subprocess


def _scalar(text):
    text = re.sub(r"(^|\s)#.*$", "", text).strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _block(lines, indent):
    """A text after `|`."""
    kept = []
    while lines and (not lines[0].strip() or len(lines[0]) - len(lines[0].lstrip()) >= indent):
        kept.append(lines.pop(0))
    deep = min(len(line) - len(line.lstrip()) for line in kept if line.strip())
    return "\n".join(line[deep:] for line in kept).rstrip() + "\n"


def _value(lines, text, indent):
    if text == "|":
        return _block(lines, indent + 1)
    return _scalar(text) if _scalar(text) else _node(lines, indent + 1)


def _node(lines, least):
    """Mappings, lists and texts: all of YAML that the templates use."""
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("#")):
        lines.pop(0)
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else -1
    if indent < least:
        return ""
    out = [] if lines[0].lstrip().startswith("- ") else {}
    while lines:
        line = lines[0]
        if not line.strip() or line.lstrip().startswith("#"):
            lines.pop(0)
            continue
        if len(line) - len(line.lstrip()) != indent:
            break
        lines.pop(0)
        text = line.strip()
        if isinstance(out, list):
            text = text[2:]
            if re.match(r"[\w-]+:( |$)", text):  # a mapping begins on the line of its dash
                lines.insert(0, " " * (indent + 2) + text)
                out.append(_node(lines, indent + 1))
            else:
                out.append(_value(lines, text, indent))
        else:
            key, _, rest = text.partition(":")
            out[key] = _value(lines, rest.strip(), indent)
    return out


def read(path):
    with open(path, encoding="utf-8") as f:
        return _node(f.read().splitlines(), 0)


def bash(script, cwd, env):
    """Runs a script as both services do: the first command that fails ends the step."""
    return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=cwd, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)


def _fill(text, values):
    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda m: values[m[1]], text)


def run_action(path, inputs, cwd, env):
    """A composite action of GitHub. -> its exit status, output, step outputs, summary. Steps that use another action are
    not run."""
    action = read(path)
    values = {"inputs." + k: inputs.get(k, v.get("default", "")) for k, v in action["inputs"].items()}
    summary, printed, status = os.path.join(cwd, "summary.md"), b"", 0
    for number, step in enumerate(action["runs"]["steps"]):
        if "run" not in step or status:
            continue
        output = os.path.join(cwd, "output%d" % number)
        open(output, "w").close()
        own = {k: _fill(v, values) for k, v in step.get("env", {}).items()}
        r = bash(step["run"], cwd, {**env, **own, "GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary})
        printed, status = printed + r.stdout, r.returncode
        with open(output, encoding="utf-8") as f:
            for line in f:
                name, _, value = line.rstrip("\n").partition("=")
                values["steps.%s.outputs.%s" % (step["id"], name)] = value
    text = open(summary, encoding="utf-8").read() if os.path.exists(summary) else ""
    return status, printed.decode(), values, text


def run_job(path, name, variables, cwd, env):
    """A job of GitLab, whose script's lines are one script."""
    job = read(path)[name]
    r = bash("\n".join(job["script"]), cwd, {**env, **job["variables"], **variables})
    return r.returncode, r.stdout.decode(), job
