#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/base64.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <cmath>
#include <filesystem>

#include "base/strings.h"
#include "data/parquet/plugin.h"

namespace tern::data {
namespace {

constexpr std::int64_t kRowsPerBatch = 256;

template <typename Array>
const Array& as(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

template <typename Array>
void append_integer(std::string& out, const arrow::Array& array, std::int64_t at) {
  out += std::to_string(as<Array>(array).Value(at));
}

void append_real(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const std::string number = cat(value);
  out += number;
  if (number.find_first_of(".e") == std::string::npos) out += ".0";
}

template <typename Array>
void append_string(std::string& out, const arrow::Array& array, std::int64_t at) {
  append_json_string(out, as<Array>(array).GetView(at));
}

template <typename Array>
void append_base64(std::string& out, const arrow::Array& array, std::int64_t at) {
  append_json_string(out, arrow::util::base64_encode(as<Array>(array).GetView(at)));
}

// Recursion is as deep as the schema, which Arrow bounds.
void append_value(std::string& out, const arrow::Array& array, std::int64_t at);

void append_items(std::string& out, const arrow::Array& items, std::int64_t begin, std::int64_t count) {
  out += '[';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    append_value(out, items, begin + i);
  }
  out += ']';
}

template <typename Array>
void append_list(std::string& out, const arrow::Array& array, std::int64_t at) {
  const auto& list = as<Array>(array);
  append_items(out, *list.values(), list.value_offset(at), list.value_length(at));
}

void append_struct(std::string& out, const arrow::StructArray& array, std::int64_t at) {
  out += '{';
  for (int i = 0; i < array.num_fields(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, array.struct_type()->field(i)->name());
    out += ':';
    append_value(out, *array.field(i), at);  // field() minds the offset of a slice
  }
  out += '}';
}

// Keys that are strings make an object; others make pairs.
void append_map(std::string& out, const arrow::MapArray& array, std::int64_t at) {
  const auto& keys = *array.keys();
  const bool object = keys.type_id() == arrow::Type::STRING || keys.type_id() == arrow::Type::LARGE_STRING;
  const std::int64_t begin = array.value_offset(at);
  out += object ? '{' : '[';
  for (std::int64_t i = begin; i < begin + array.value_length(at); ++i) {
    if (i > begin) out += ',';
    if (!object) out += '[';
    append_value(out, keys, i);
    out += object ? ':' : ',';
    append_value(out, *array.items(), i);
    if (!object) out += ']';
  }
  out += object ? '}' : ']';
}

void append_nested(std::string& out, const arrow::Array& array, std::int64_t at) {
  switch (array.type_id()) {
    case arrow::Type::LIST:
      return append_list<arrow::ListArray>(out, array, at);
    case arrow::Type::LARGE_LIST:
      return append_list<arrow::LargeListArray>(out, array, at);
    case arrow::Type::FIXED_SIZE_LIST:
      return append_list<arrow::FixedSizeListArray>(out, array, at);
    case arrow::Type::STRUCT:
      return append_struct(out, as<arrow::StructArray>(array), at);
    case arrow::Type::MAP:
      return append_map(out, as<arrow::MapArray>(array), at);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = as<arrow::DictionaryArray>(array);
      return append_value(out, *dictionary.dictionary(), dictionary.GetValueIndex(at));
    }
    case arrow::Type::EXTENSION:
      return append_value(out, *as<arrow::ExtensionArray>(array).storage(), at);
    default:  // dates, times, decimals
      append_json_string(out, array.GetScalar(at).ValueOrDie()->ToString());
  }
}

void append_value(std::string& out, const arrow::Array& array, std::int64_t at) {
  if (array.IsNull(at)) {
    out += "null";
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::NA:
      out += "null";
      return;
    case arrow::Type::BOOL:
      out += as<arrow::BooleanArray>(array).Value(at) ? "true" : "false";
      return;
    case arrow::Type::INT8:
      return append_integer<arrow::Int8Array>(out, array, at);
    case arrow::Type::INT16:
      return append_integer<arrow::Int16Array>(out, array, at);
    case arrow::Type::INT32:
      return append_integer<arrow::Int32Array>(out, array, at);
    case arrow::Type::INT64:
      return append_integer<arrow::Int64Array>(out, array, at);
    case arrow::Type::UINT8:
      return append_integer<arrow::UInt8Array>(out, array, at);
    case arrow::Type::UINT16:
      return append_integer<arrow::UInt16Array>(out, array, at);
    case arrow::Type::UINT32:
      return append_integer<arrow::UInt32Array>(out, array, at);
    case arrow::Type::UINT64:
      return append_integer<arrow::UInt64Array>(out, array, at);
    case arrow::Type::FLOAT:
      return append_real(out, as<arrow::FloatArray>(array).Value(at));
    case arrow::Type::DOUBLE:
      return append_real(out, as<arrow::DoubleArray>(array).Value(at));
    case arrow::Type::STRING:
      return append_string<arrow::StringArray>(out, array, at);
    case arrow::Type::LARGE_STRING:
      return append_string<arrow::LargeStringArray>(out, array, at);
    case arrow::Type::STRING_VIEW:
      return append_string<arrow::StringViewArray>(out, array, at);
    case arrow::Type::BINARY:
      return append_base64<arrow::BinaryArray>(out, array, at);
    case arrow::Type::LARGE_BINARY:
      return append_base64<arrow::LargeBinaryArray>(out, array, at);
    case arrow::Type::FIXED_SIZE_BINARY:
      return append_base64<arrow::FixedSizeBinaryArray>(out, array, at);
    default:
      return append_nested(out, array, at);
  }
}

class ParquetRows final : public RowReader {
 public:
  ParquetRows(std::string path, ReaderLimits limits) : path_(std::move(path)), limits_(limits) {
    parquet::ReaderProperties properties = parquet::default_reader_properties();
    properties.enable_buffered_stream();  // else a row group's column lies in memory whole
    parquet::ArrowReaderProperties arrow_properties(false);
    arrow_properties.set_batch_size(kRowsPerBatch);
    arrow_properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(take(arrow::io::ReadableFile::Open(path_)), properties));
    builder.properties(arrow_properties);
    reader_ = take(builder.Build());
    rows_ = static_cast<std::uint64_t>(reader_->parquet_reader()->metadata()->num_rows());
    bytes_ = std::filesystem::file_size(path_);
    batches_ = take(reader_->GetRecordBatchReader());
  }

  Result<bool> next(RawRow& row) override {
    return guard([&] {
      while (!batch_ || at_ == batch_->num_rows()) {
        at_ = 0;
        check(batches_->ReadNext(&batch_));
        if (!batch_) return false;
      }
      row.error.reset();
      row.json.assign(1, '{');
      for (int column = 0; column < batch_->num_columns(); ++column) {
        if (column > 0) row.json += ',';
        append_json_string(row.json, batch_->column_name(column));
        row.json += ':';
        append_value(row.json, *batch_->column(column), at_);
      }
      row.json += '}';
      ++at_;
      row.ordinal = done_++;
      row.line = done_;
      if (row.json.size() > limits_.row_bytes) {
        row.json.clear();
        row.error = data_error(cat(path_, ":", row.line), cat("a row of at most ", human_bytes(limits_.row_bytes)),
                               "a longer one", "cut the row into several");
      }
      return true;
    });
  }

  [[nodiscard]] FileFormat format() const override { return FileFormat::parquet; }
  [[nodiscard]] std::uint64_t consumed() const override {
    return rows_ == 0 ? bytes_
                      : static_cast<std::uint64_t>(static_cast<double>(bytes_) * static_cast<double>(done_) /
                                                   static_cast<double>(rows_));
  }
  [[nodiscard]] std::uint64_t total() const override { return bytes_; }

  // Arrow tells errors by Status and, from below, by exceptions.
  template <typename Body>
  auto guard(Body&& body) const -> Result<decltype(body())> {
    try {
      return body();
    } catch (const Failure& failure) {
      return failure.error();
    } catch (const std::exception& failure) {
      return damaged(failure.what());
    }
  }

 private:
  [[nodiscard]] Error damaged(std::string why) const {
    for (char& c : why) c = c == '\n' ? ' ' : c;
    return data_error(path_, "a sound Parquet file", std::move(why), "copy the file again");
  }
  void check(const arrow::Status& status) const {
    if (!status.ok()) throw Failure(damaged(status.message()));
  }
  template <typename T>
  T take(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  std::string path_;
  ReaderLimits limits_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::int64_t at_ = 0;  // in the batch
  std::uint64_t done_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

}  // namespace tern::data

extern "C" __attribute__((visibility("default"))) void tern_open_parquet(
    const std::string& path, const tern::data::ReaderLimits& limits,
    tern::Result<std::unique_ptr<tern::data::RowReader>>& out) {
  using namespace tern::data;
  try {
    out = std::unique_ptr<RowReader>(std::make_unique<ParquetRows>(path, limits));
  } catch (const tern::Failure& failure) {
    out = failure.error();
  } catch (const std::exception& failure) {
    out = tern::data_error(path, "a sound Parquet file", failure.what(), "copy the file again");
  }
}
