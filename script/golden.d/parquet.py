"""Parquet files and the same rows as JSON lines, written by pyarrow: parquet.py FOLDER
With a tern: parquet.py FOLDER TERN also writes a file of some hundred megabytes and checks that reading it takes little
memory, and that a tern whose library is gone says so. What JSON cannot say goes the way that tests/unit/data/parquet_test.cpp expects: binary as base64, dates, times
and decimals as Arrow's own text, NaN as null."""
import base64
import datetime
import decimal
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def plain(value, kind):
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if pa.types.is_map(kind):
        return {k: plain(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        return {k: plain(v, kind.field(k).type) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v, kind.value_type) for v in value]
    return value


def write(folder, name, table, **options):
    pq.write_table(table, folder / f"{name}.parquet", **options)
    as_text = [i for i, f in enumerate(table.schema) if pa.types.is_temporal(f.type) or pa.types.is_decimal(f.type)]
    for i in as_text:
        table = table.set_column(i, table.schema[i].name, pc.cast(table.column(i), pa.string()))
    with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as out:
        for row in table.to_pylist():
            out.write(json.dumps({k: plain(v, table.schema.field(k).type) for k, v in row.items()}, ensure_ascii=False) + "\n")


def messages(count):
    turn = pa.struct([("role", pa.string()), ("content", pa.large_string()), ("loss", pa.bool_())])
    rows = []
    for i in range(count):
        rows.append([{"role": "user", "content": f"Frage {i}: \"{i}\"\n\t\\ é 漢 🙂", "loss": None},
                     {"role": "assistant", "content": f"{2 * i}", "loss": i % 3 != 0}][: 2 if i % 7 else None])
    systems = [None if i % 2 else "Be brief." for i in range(count)]
    return pa.table({"messages": pa.array(rows, pa.list_(turn)), "source": pa.array(["a", "b"] * (count // 2)).dictionary_encode(),
                     "system": pa.array(systems, pa.string())})


def columns():
    n = 5
    return pa.table({
        "query": pa.array([f"q{i}" for i in range(n)], pa.large_string()),
        "response": pa.array(["a", "b", "a", "b", "c"]).dictionary_encode(),
        "history": pa.array([[], [["1", "2"]], None, [["3", "4"], ["5", "6"]], []], pa.list_(pa.list_(pa.string()))),
        "i8": pa.array([-128, 127, None, 0, 1], pa.int8()), "u8": pa.array([0, 255, None, 1, 2], pa.uint8()),
        "i16": pa.array([-32768, 32767, None, 0, 1], pa.int16()), "u16": pa.array([0, 65535, None, 1, 2], pa.uint16()),
        "i32": pa.array([-2**31, 2**31 - 1, None, 0, 1], pa.int32()), "u32": pa.array([0, 2**32 - 1, None, 1, 2], pa.uint32()),
        "i64": pa.array([-2**63, 2**63 - 1, None, 0, 1], pa.int64()), "u64": pa.array([0, 2**64 - 1, None, 1, 2], pa.uint64()),
        "f32": pa.array([0.5, -1.25, None, math.nan, 3e38], pa.float32()),
        "f64": pa.array([0.1, -1e300, None, math.inf, 7.0], pa.float64()),
        "flag": pa.array([True, False, None, True, False]),
        "nothing": pa.nulls(n),
        "day": pa.array([datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)] + [None] * 2, pa.date32()),
        "when": pa.array([datetime.datetime(2024, 2, 29, 13, 5, 6, 789000)] + [None] * 4, pa.timestamp("ms")),
        "price": pa.array([decimal.Decimal("12.50"), None, decimal.Decimal("-0.01"), None, None], pa.decimal128(10, 2)),
        "bytes": pa.array([b"\x00\xff", b"", None, b"abc", b"\n"], pa.binary()),
        "pair": pa.array([[1, 2]] * n, pa.list_(pa.int32(), 2)),
        "map": pa.array([[("k", 1)], [], None, [("k", 2), ("l", None)], []], pa.map_(pa.string(), pa.int64())),
        "image": pa.array([{"path": f"{i}.png", "size": {"w": i}} for i in range(n)]),
    })


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, "messages-snappy", messages(20), compression="snappy", row_group_size=3)
    write(folder, "messages-zstd", messages(6), compression="zstd")
    write(folder, "columns-gzip", columns(), compression="gzip", row_group_size=2)
    write(folder, "empty", messages(4).slice(0, 0))
    value, kind = None, pa.int8()
    for _ in range(70):
        value, kind = [value], pa.list_(kind)
    pq.write_table(pa.table({"text": pa.array([value], kind)}), folder / "too-deep.parquet")
    if len(sys.argv) > 2:
        bounded(sys.argv[2])


def bounded(tern):
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "large.parquet"
        writer = None
        for part in range(40):
            table = pa.table({"text": [f"{part} {i} " + "lorem ipsum " * 800 for i in range(1000)]})
            writer = writer or pq.ParquetWriter(file, table.schema, compression="none", use_dictionary=False)
            writer.write_table(table, row_group_size=1000000)
        writer.close()
        size = file.stat().st_size
        vocabulary = Path(scratch) / "tokenizer.json"
        vocabulary.write_text(json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "lorem": 1, "ipsum": 2}}}))
        subprocess.run([tern, "tokenize", "--model", scratch, "--dataset", str(file), "--result_path", "/dev/null"], check=True)
        alone = Path(scratch) / "bin" / "tern"
        alone.parent.mkdir()
        shutil.copy(tern, alone)
        refused = subprocess.run([alone, "tokenize", "--model", scratch, "--dataset", str(file)], capture_output=True, text=True)
        if refused.returncode != 1 or "the library that reads Parquet" not in refused.stderr:
            sys.exit(f"parquet: without the library beside it: {refused}")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(f"parquet: {size >> 20} MiB read with {peak >> 20} MiB of memory")
        if peak > size // 2:
            sys.exit("parquet: reading holds the file in memory")


main()
