#include "models/write_weights.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "models/parameter_reader.h"

namespace tern::models {
namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements that are worth a thread

std::int64_t elements(const StoredTensor& tensor) {
  return tensor.sizes.matrices * tensor.sizes.rows * tensor.sizes.columns;
}

std::vector<const ParameterSpec*> specs_of(const StoredTensor& tensor) {
  std::vector<const ParameterSpec*> specs;
  for (const auto& some : tensor.rows) specs.push_back(some.spec);
  std::sort(specs.begin(), specs.end());
  specs.erase(std::unique(specs.begin(), specs.end()), specs.end());
  return specs;
}

// A buffer keeps its precision.
tern_dtype written_dtype(const StoredTensor& tensor, tern_dtype dtype) {
  return tensor.rows.front().spec->is_buffer ? TERN_F32 : dtype;
}

}  // namespace

void write_weights(std::span<const ParameterSpec> specs, const std::filesystem::path& directory,
                   const WriteWeightsOptions& options) {
  const auto stored = stored_tensors(specs, Form::hugging_face);
  std::vector<checkpoint::TensorSpec> tensors;
  std::int64_t total = 0;
  for (const StoredTensor& tensor : stored) {
    const tern_dtype dtype = written_dtype(tensor, options.dtype);
    tensors.push_back({tensor.name, std::string(dtype_info(dtype).safetensors), tensor.shape});
    total += elements(tensor);
  }
  checkpoint::SafetensorsWriteOptions write;
  write.max_shard_size = options.max_shard_size;
  auto writer = checkpoint::SafetensorsWriter::create(directory, tensors, write).value();
  StoredTensorReader reader(options.rows);
  ThreadPool pool;
  std::int64_t done = 0;
  for (const StoredTensor& tensor : stored) {
    if (options.begin) options.begin(specs_of(tensor));
    std::vector<float> values(static_cast<std::size_t>(elements(tensor)));
    const std::int64_t width = tensor.shape.back();
    pool.parallel_for(elements(tensor) / width, std::max<std::int64_t>(kGrain / width, 1),
                      [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                        reader.read_rows(tensor, begin, end - begin,
                                         std::span(values).subspan(static_cast<std::size_t>(begin * width),
                                                                   static_cast<std::size_t>((end - begin) * width)));
                      });
    writer.write(tensor.name, rounded(tensor.name, values, written_dtype(tensor, options.dtype))).value();
    done += elements(tensor);
    if (options.progress) options.progress(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  }
  writer.finish().value();
}

}  // namespace tern::models
