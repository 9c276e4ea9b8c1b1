"""A plugin as for ms-swift: GSM8K with nothing but the number as its answer, under a name of its own."""
import os

from swift.dataset import DatasetMeta, ResponsePreprocessor, register_dataset


class OnlyTheNumber(ResponsePreprocessor):
    def preprocess(self, row):
        row["response"] = row["response"].split("####")[-1].strip()
        return super().preprocess(row)


here = os.path.dirname(os.path.abspath(__file__))
register_dataset(
    DatasetMeta(
        dataset_path=os.path.join(here, "..", "gsm8k", "train.jsonl"),
        dataset_name="short-gsm8k",
        preprocess_func=OnlyTheNumber(),
    ))
