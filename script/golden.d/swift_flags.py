"""Writes tests/data/flags/ms-swift.tsv: every flag of ms-swift's commands with its default, one row each.

Facts only, read from the packages' dataclasses by Python's ast, so that none of them need be installed.
Usage: swift_flags.py DIR_OF_WHEELS OUT.tsv   (wheels of ms-swift, transformers and trl, as pip download leaves them)
"""
import ast
import pathlib
import sys
import zipfile

COMMANDS = {
    "pt": "PretrainArguments",
    "sft": "SftArguments",
    "rlhf": "RLHFArguments",
    "infer": "InferArguments",
    "deploy": "DeployArguments",
    "rollout": "RolloutArguments",
    "export": "ExportArguments",
    "merge-lora": "ExportArguments",
    "eval": "EvalArguments",
    "sample": "SamplingArguments",
    "app": "AppArguments",
    "web-ui": "WebUIArguments",
}
# TRL's own settings of alignment, which rlhf passes on.
TRL = ["DPOConfig", "CPOConfig", "ORPOConfig", "KTOConfig", "RewardConfig", "PPOConfig", "GKDConfig", "GRPOConfig"]
# Two classes of one name: which package's is meant where.
RENAMED = {"HfSeq2SeqTrainingArguments": "hf.Seq2SeqTrainingArguments", "HfTrainingArguments": "hf.TrainingArguments"}


def sources(wheels):
    """(package, path, text) of every module that may hold a dataclass of flags."""
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        package = wheel.name.split("-")[0]
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                wanted = {
                    "ms_swift": name.startswith("swift/") and not name.startswith("swift/megatron/"),
                    "transformers": name.split("/")[-1] in ("training_args.py", "training_args_seq2seq.py"),
                    "trl": name.endswith("_config.py"),
                }[package]
                if wanted and name.endswith(".py") and "/ui/" not in name:
                    yield package, name, archive.read(name).decode()


def default_of(node):
    """The default as its source says it; of a field, its default or its factory's result."""
    if node is None:
        return "-"
    if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "field":
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if "default" in named:
            return default_of(named["default"])
        factory = named.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return default_of(factory.body)
        if isinstance(factory, ast.Name):
            return {"list": "[]", "dict": "{}"}.get(factory.id, factory.id + "()")
        return "-"
    if isinstance(node, ast.Constant):
        return str(node.value)
    return ast.unparse(node)


def fields_of(body):
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if "ClassVar" not in ast.unparse(node.annotation) and not node.target.id.startswith("_"):
                yield node.target.id, default_of(node.value)


def read_classes(wheels):
    classes = {}
    for package, _, text in sources(wheels):
        prefix = {"ms_swift": "", "transformers": "hf.", "trl": "trl."}[package]
        for node in ast.parse(text).body:
            if not isinstance(node, ast.ClassDef):
                continue
            bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
            if package == "trl":
                bases = [{"TrainingArguments": "hf.TrainingArguments"}.get(base, "trl." + base) for base in bases]
            elif package == "transformers":
                bases = ["hf." + base for base in bases]
            else:
                bases = [RENAMED.get(base, "trl." + base[2:] if base.startswith("Hf") else base) for base in bases]
            fields = dict(fields_of(node.body))
            name = prefix + node.name
            if name not in classes or len(fields) > len(classes[name][1]):
                classes[name] = (bases, fields)
    return classes


def linear(name, classes, made):
    """A Python class with the same bases, so that Python itself says in which order they count."""
    if name not in made:
        bases = [linear(base, classes, made) for base in classes.get(name, ([], {}))[0] if base in classes]
        made[name] = type(name, tuple(bases) or (object,), {})
    return made[name]


def flags_of(name, classes, made):
    flags = {}
    for step in reversed(linear(name, classes, made).__mro__):
        flags.update(classes.get(step.__name__, ([], {}))[1])
    return flags


def main(wheels, out):
    classes, made = read_classes(wheels), {}
    names = ", ".join(sorted(w.name.split("-py")[0].replace("_swift-", "-swift-") for w in pathlib.Path(wheels).glob("*.whl")))
    lines = [f"# Flags of ms-swift's commands and their defaults, as facts: {names}.",
             "# Made by script/golden.d/swift_flags.py. `-`: no default; the rest as its source says it.",
             "# command\tflag\tdefault\tfrom"]
    for command, name in COMMANDS.items():
        flags = flags_of(name, classes, made)
        rows = {flag: (default, "ms-swift") for flag, default in flags.items()}
        if command == "rlhf":
            for config in TRL:
                for flag, default in flags_of("trl." + config, classes, made).items():
                    rows.setdefault(flag, (default, "trl"))
        lines += [f"{command}\t{flag}\t{' '.join(default.split())}\t{source}" for flag, (default, source) in sorted(rows.items())]
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
