"""Writes tests/data/flags/ms-swift-examples.tsv: the flags of command lines in ms-swift's examples, as facts.

Usage: swift_examples.py CHECKOUT_OF_MS_SWIFT OUT.tsv
"""
import pathlib
import re
import shlex
import subprocess
import sys

COMMANDS = "pt|sft|rlhf|infer|deploy|rollout|export|merge-lora|eval|sample|app|web-ui"
MOST = 60


def command_lines(examples):
    """(file, command, words) of each line that runs swift, without those that a shell has to fill in."""
    for file in sorted(examples.rglob("*.sh")):
        text = re.sub(r"\\\s*\n", " ", file.read_text(errors="replace"))
        for line in text.split("\n"):
            match = re.search(rf"(?:^|\s)swift\s+({COMMANDS})\s(.*)$", line.strip())
            if line.strip().startswith("#") or not match:
                continue
            try:
                words = shlex.split(match[2], comments=True)
            except ValueError:
                words = match[2].split()
            words = [word for word in words if word not in ("&", "|", ">", "2>&1")]
            if not any(sign in word for word in words for sign in "$<`"):
                yield str(file.relative_to(examples)), match[1], words


def main(checkout, out):
    examples = pathlib.Path(checkout) / "examples"
    # hqq isn't a method of tern's, and what goes with it has no meaning alone.
    rows = [row for row in command_lines(examples) if "hqq" not in row[2]]

    def flags(row):
        return {(row[1], word.split("=")[0]) for word in row[2] if word.startswith("--")}

    chosen = [row for row in rows if row[0].startswith("ascend")]
    seen = set().union(*map(flags, chosen))
    while len(chosen) < MOST:
        best = max(rows, key=lambda row: (len(flags(row) - seen), -len(row[2])))
        if not flags(best) - seen:
            break
        chosen.append(best)
        seen |= flags(best)
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    head = [f"# Flags of command lines in ms-swift's examples, as facts: github.com/modelscope/ms-swift at {commit.stdout.strip()}.",
            "# Those of examples/ascend, and of the others as many as bring a flag that the lines before lack.",
            "# file\tcommand\tflags and values, a word a column"]
    pathlib.Path(out).write_text("\n".join(head + ["\t".join((file, command, *words)) for file, command, words in chosen]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
