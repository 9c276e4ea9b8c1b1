"""Runs plugins that were written for ms-swift, for a tern that is the parent process (data/plugin_host.h).

It stands for the package `swift`: what registers data sets is here, and what is not is recorded when a plugin calls
it or puts something into it. A request is a line of JSON on standard input, an answer one or several on standard output; what a plugin
prints goes to standard error.
"""
import ast
import collections
import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import os
import sys
import traceback
import types

requests = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)

lacking = []  # `swift.rewards.orms['mine']`


def lacks(name):
    if name not in lacking:
        lacking.append(name)


class Absent(type):
    """The kind of everything that the shim does not have: a class to derive from, a function, or a table."""

    def __call__(cls, *arguments, **named):
        if Absent.is_stand_in(cls):
            lacks(f"{cls.__module__}.{cls.__name__}()")
            return None
        return super().__call__(*arguments, **named)

    def __setitem__(cls, key, value):
        lacks(f"{cls.__module__}.{cls.__name__}[{key!r}]")

    def __getitem__(cls, key):
        return cls

    def __contains__(cls, key):
        return False

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    @staticmethod
    def is_stand_in(cls):
        return cls.__dict__.get("stand_in", False)


class Shim(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Absent(name, (), {"__module__": self.__name__, "stand_in": True})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `swift` and whatever is below it here, be ms-swift installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name == "swift" or name.startswith("swift."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = Shim(spec.name)
        for key, value in PROVIDED.items():
            if key in MEASURES and spec.name.split(".")[-1] not in ("swift", "metrics", "base", "mapping"):
                continue
            if key in MEASURES or spec.name.split(".")[-1] in ("swift", "llm", "dataset", "preprocessor", "register", "dataset_meta", "utils"):
                setattr(module, key, value)
        return module

    def exec_module(self, module):
        pass


class RowPreprocessor:
    def __init__(self, *, columns=None, **_):
        self.columns = dict(columns or {})
        self.automatic = {}

    def preprocess(self, row):
        return row

    def rename(self, row, columns):
        known = {key.lower(): key for key in row}
        chosen = {known[old.lower()]: new for old, new in columns.items() if old.lower() in known}
        wanted = list(chosen.values())
        for old, new in chosen.items():
            if wanted.count(new) == 1 and old != new:
                row[new] = row.pop(old)

    def run(self, row):
        solution = row.get("solution")
        self.rename(row, self.columns)
        self.rename(row, self.automatic)
        row = self.preprocess(row)
        if row is not None and solution is not None:
            row.setdefault("solution", solution)
        return row


class ResponsePreprocessor(RowPreprocessor):
    QUERY = "query prompt input instruction question problem".split()
    RESPONSE = "response answer output targets target answer_key answers solution text completion content".split()

    def __init__(self, *, columns=None, **more):
        super().__init__(columns=columns, **more)
        self.automatic = {"system": "system", "system_prompt": "system"}
        self.automatic.update({key: "query" for key in self.QUERY})
        self.automatic.update({key: "response" for key in self.RESPONSE})

    def preprocess(self, row):
        response = row.pop("response", None)
        if isinstance(response, (list, tuple)):
            response = response[0]
        history = row.pop("history", None) or []
        if isinstance(history, str):
            history = ast.literal_eval(history)
        messages = []
        system = row.pop("system", None)
        if system is not None:
            messages.append({"role": "system", "content": system})
        for query, answer in list(history) + [[row.pop("query", None), response]]:
            if query is not None:
                messages.append({"role": "user", "content": query})
            if answer is not None:
                messages.append({"role": "assistant", "content": answer})
        row["messages"] = messages
        return row


class AlpacaPreprocessor(ResponsePreprocessor):
    def __init__(self, *, columns=None, **more):
        super().__init__(columns=columns, **more)
        self.automatic = {}

    def preprocess(self, row):
        parts = [part for part in (row.pop("instruction", None), row.pop("input", None)) if part]
        row["query"] = "\n".join(parts)
        if "output" in row:
            row["response"] = row.pop("output")
        return super().preprocess(row)


class MessagesPreprocessor(RowPreprocessor):
    def __init__(self, *, role_key=None, content_key=None, user_role=None, assistant_role=None, system_role="system",
                 columns=None, repair_messages=None, inner_key=None, **more):
        super().__init__(columns=columns, **more)
        self.automatic = {key: "messages" for key in ("messages", "conversation", "conversations")}
        self.role_keys = [role_key] if role_key else ["role", "from"]
        self.content_keys = [content_key] if content_key else ["content", "value"]
        self.roles = {user_role: "user", assistant_role: "assistant", system_role: "system"}
        self.repair, self.inner_key = repair_messages, inner_key

    def preprocess(self, row):
        messages = row["messages"]
        if self.repair is not None:
            messages = self.repair(messages)
            if messages is None:
                return None
        elif isinstance(messages, str):
            try:
                messages = json.loads(messages)
            except json.JSONDecodeError:
                messages = ast.literal_eval(messages)
        if self.inner_key is not None:
            messages = messages[self.inner_key]
        for message in messages:
            for name, keys in (("role", self.role_keys), ("content", self.content_keys)):
                for key in keys:
                    if key != name and key in message:
                        message[name] = message.pop(key)
            message["role"] = self.roles.get(message.get("role"), message.get("role"))
        row["messages"] = messages
        return row


class AutoPreprocessor(RowPreprocessor):
    """tern tells the formats apart itself."""


class SubsetDataset:
    def __init__(self, name=None, subset="default", split=None, preprocess_func=None, is_weak_subset=False):
        self.name, self.subset, self.split = name or subset, subset, split
        self.preprocess_func, self.is_weak_subset = preprocess_func, is_weak_subset


class DatasetMeta:
    def __init__(self, ms_dataset_id=None, hf_dataset_id=None, dataset_path=None, dataset_name=None, *,
                 ms_revision=None, hf_revision=None, subsets=None, split=None, preprocess_func=None, loader=None,
                 load_function=None, tags=None, help=None, huge_dataset=False):
        self.ms_dataset_id, self.hf_dataset_id = ms_dataset_id, hf_dataset_id
        self.dataset_path, self.dataset_name = dataset_path, dataset_name
        self.subsets = [SubsetDataset(subset=s) if isinstance(s, str) else s for s in subsets or ["default"]]
        self.split = split or ["train"]
        self.preprocess_func = preprocess_func or AutoPreprocessor()
        self.loader, self.load_function, self.tags = loader, load_function, tags or []
        for name, value in (("ms_revision", ms_revision), ("hf_revision", hf_revision)):
            if value is not None:
                lacks(f"DatasetMeta({name}=...)")
        if self.split != ["train"]:
            lacks("DatasetMeta(split=...) other than ['train']")

    def names(self):
        return [n for n in (self.dataset_name, self.ms_dataset_id, self.hf_dataset_id, self.dataset_path) if n]


class BaseDatasetLoader:
    def load(self, dataset_syntax=None, dataset_meta=None, *, use_hf=None):
        raise NotImplementedError("a loader needs a method load")


registered = []


def register_dataset(dataset_meta, *, exist_ok=False):
    for other in list(registered):
        if set(other.names()) & set(dataset_meta.names()):
            if not exist_ok:
                raise ValueError(f"the data set {dataset_meta.names()[0]} is registered twice")
            registered.remove(other)
    registered.append(dataset_meta)


def register_dataset_info(dataset_info=None):
    base = None
    if isinstance(dataset_info, str) and os.path.isfile(dataset_info):
        base = os.path.dirname(os.path.abspath(dataset_info))
        with open(dataset_info, encoding="utf-8") as file:
            dataset_info = json.load(file)
    elif isinstance(dataset_info, str):
        dataset_info = json.loads(dataset_info)

    def described(entry):
        entry = dict(entry)
        columns = entry.pop("columns", None)
        if "messages" in entry:
            entry["preprocess_func"] = MessagesPreprocessor(**entry.pop("messages"), columns=columns)
        elif columns:
            entry["preprocess_func"] = AutoPreprocessor(columns=columns)
        return entry

    metas = []
    for entry in dataset_info or []:
        entry = described(entry)
        if base is not None and "dataset_path" in entry:
            entry["dataset_path"] = os.path.join(base, os.path.expanduser(entry["dataset_path"]))
        entry["subsets"] = [s if isinstance(s, str) else SubsetDataset(**described(s)) for s in entry.get("subsets", [])]
        metas.append(DatasetMeta(**entry))
        register_dataset(metas[-1])
    return metas


def get_logger(*_, **__):
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    return logging.getLogger("plugins")


def get_dataset_list():
    return [meta.names()[0] for meta in registered]


class EvalMetrics:
    """Its predictions are the answers as text, and its label_ids the rows' own answers."""

    def __init__(self, args=None, trainer=None):
        self.args, self.trainer = args, trainer

    def compute_metrics(self, eval_prediction):
        raise NotImplementedError("a metric needs a method compute_metrics")


EvalPrediction = collections.namedtuple("EvalPrediction", "predictions label_ids")
eval_metrics_map = {}


def metric(name, predictions, label_ids):
    made = eval_metrics_map[name]
    if isinstance(made, type):
        if hasattr(made, "preprocess_logits_for_metrics"):
            lacks(f"{made.__name__}.preprocess_logits_for_metrics")
        made = made(None, None).compute_metrics
    numbers = made(EvalPrediction(predictions, label_ids))
    return {key: float(value) for key, value in numbers.items()}


MEASURES = {"EvalMetrics": EvalMetrics, "EvalPrediction": EvalPrediction, "eval_metrics_map": eval_metrics_map}
PROVIDED = {thing.__name__: thing for thing in (
    RowPreprocessor, ResponsePreprocessor, AlpacaPreprocessor, MessagesPreprocessor, AutoPreprocessor, SubsetDataset,
    DatasetMeta, BaseDatasetLoader, register_dataset, register_dataset_info, get_logger, get_dataset_list)}
PROVIDED.update(MEASURES)


def say(**answer):
    answers.write(json.dumps(answer, ensure_ascii=False, default=str) + "\n")


def problem(error):
    """The last place of the user's own code, and what Python says."""
    own = {os.path.dirname(os.path.abspath(file)) for file in sys.argv[1:]}
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if f.filename != "<string>" and os.path.dirname(os.path.abspath(f.filename)) in own]
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {error}".replace("\n", " ")


found = []


def find(word, use_hf):
    """A registered data set by one of its names, `:subset` aside: where its rows come from."""
    for prefix in ("ms::", "hf::", "MS::", "HF::"):
        if word.startswith(prefix):
            use_hf, word = prefix.lower() == "hf::", word[len(prefix):]
    for meta in registered:
        for name in meta.names():
            if word != name and not word.startswith(name + ":"):
                continue
            wanted = word[len(name) + 1:]
            chosen = [s for s in meta.subsets if s.name == wanted] if wanted else meta.subsets[:1]
            if not chosen:
                raise ValueError(f"{name} has no subset {wanted}, but {', '.join(s.name for s in meta.subsets)}")
            subset = chosen[0]
            found.append((meta, subset, use_hf))
            hub = "hf::" if meta.hf_dataset_id and (use_hf or not meta.ms_dataset_id) else "ms::"
            source = meta.dataset_path or hub + ((meta.hf_dataset_id if hub == "hf::" else meta.ms_dataset_id) or "")
            if not meta.dataset_path and subset.subset != "default":
                source += ":" + subset.subset
            loads = meta.loader is not None or meta.load_function is not None
            return {"handle": len(found) - 1, "source": source, "loads": loads}
    return {}


def function_of(handle):
    meta, subset, _ = found[handle]
    function = subset.preprocess_func or meta.preprocess_func
    if isinstance(function, type):
        function = function()
    if not isinstance(function, RowPreprocessor):
        raise TypeError("preprocess_func is no RowPreprocessor, and works on whole data sets only in ms-swift")
    return function


def loaded(handle):
    meta, subset, use_hf = found[handle]
    if meta.loader is not None:
        loader = meta.loader() if isinstance(meta.loader, type) else meta.loader
        return loader.load(None, meta, use_hf=use_hf)
    return meta.load_function(None, meta, use_hf=use_hf)


def answer(request):
    if request["do"] == "find":
        say(**find(request["word"], request["use_hf"]), lacking=lacking)
    elif request["do"] == "row":
        say(row=function_of(request["handle"]).run(request["row"]))
    elif request["do"] == "load":
        function = function_of(request["handle"])
        for row in loaded(request["handle"]):
            say(row=function.run(dict(row)))
        say(end=True)
    elif request["do"] == "metric":
        if request["name"] not in eval_metrics_map:
            known = ", ".join(eval_metrics_map) or "none"
            raise ValueError(f"the plugins register no metric {request['name']}, but {known}")
        say(metric=metric(request["name"], request["answers"], request["labels"]), lacking=lacking)


def main():
    sys.meta_path.insert(0, Finder())
    for number, file in enumerate(sys.argv[1:]):
        try:
            if file.endswith(".json"):
                register_dataset_info(file)
                continue
            sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
            spec = importlib.util.spec_from_file_location(f"tern_plugin_{number}", file)
            if spec is None:
                raise ValueError(f"{file} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        except Exception as error:
            say(error=problem(error))
            answers.flush()
            return
    say(lacking=lacking)
    answers.flush()
    for line in requests:
        try:
            answer(json.loads(line))
        except Exception as error:
            say(error=problem(error))
        answers.flush()


main()
