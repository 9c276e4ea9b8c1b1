#include "backends/opencl/program.h"

#include <algorithm>
#include <vector>

#include "backends/opencl/binary_cache.h"
#include "backends/opencl/error.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

struct Source {
  const char* name;
  const char* text;
};
constexpr Source kSources[] = {
#include <sources.inc>  // made from the files of cl/
};

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  if (cl().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::string log(bytes, '\0');
  (void)cl().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  const std::size_t at = log.find("error:");
  return log.substr(at == std::string::npos ? 0 : at, 600);
}

// The text with each line #include "backends/opencl/cl/name.clh" replaced by that source.
std::string expanded(std::string_view text) {
  constexpr std::string_view kBegin = "#include \"backends/opencl/cl/";
  constexpr std::string_view kEnd = ".clh\"\n";
  std::string out;
  for (;;) {
    const std::size_t at = text.find(kBegin);
    const std::size_t end = at == std::string_view::npos ? at : text.find(kEnd, at);
    if (end == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, at));
    out.append(source_text(text.substr(at + kBegin.size(), end - at - kBegin.size())));
    text.remove_prefix(end + kEnd.size());
  }
}

std::vector<unsigned char> binary_of(cl_program program) {
  std::size_t bytes = 0;
  if (cl().GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) return {};
  std::vector<unsigned char> binary(bytes);
  unsigned char* place = binary.data();
  if (bytes == 0 || cl().GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof place, &place, nullptr) != CL_SUCCESS) {
    return {};
  }
  return binary;
}

}  // namespace

std::string_view source_text(std::string_view name) {
  for (const Source& source : kSources) {
    if (name == source.name) return source.text;
  }
  throw Error(TERN_INTERNAL, cat("no source of kernels is called \"", name, "\" in this build"));
}

Programs::Programs(cl_context context, cl_device_id device, const Facts& facts, std::string cache_folder)
    : context_(context),
      device_(device),
      identity_(cat(facts.vendor, "\n", facts.name, "\n", facts.arch, "\n", facts.driver_version)),
      cache_folder_(std::move(cache_folder)) {
  std::ostringstream options;
  options << "-cl-std=CL1.2 -D ON_CPU=" << facts.cpu << " -D HAS_FP64=" << facts.fp64 << " -D HAS_FP16=" << facts.fp16
          << " -D HAS_SUBGROUPS=" << facts.subgroups << " -D HAS_INTEGER_DOT=" << facts.integer_dot;
  if (facts.exact_division) options << " -cl-fp32-correctly-rounded-divide-sqrt";
  device_options_ = options.str();
}

cl_program Programs::get(std::string_view file, const std::string& options) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    auto& place = entries_[cat(file, "\n", options)];
    if (!place) place = std::make_shared<Entry>();
    entry = place;
  }
  const std::lock_guard lock(entry->mutex);
  if (!entry->program) entry->program = build(file, options);
  return entry->program.get();  // entries stay as long as the device
}

OwnedProgram Programs::build(std::string_view file, const std::string& options) const {
  const std::string_view common = source_text("common");
  const std::string own = expanded(source_text(file));
  const std::string all_options = cat(device_options_, " ", options);
  const std::string key = cat(identity_, "\n", all_options, "\n", common, "\n", own);
  const std::string kept_file = cache_folder_.empty() ? std::string() : binary_file(cache_folder_, key);
  if (const auto binary = kept_file.empty() ? std::nullopt : read_binary(kept_file, key)) {
    const unsigned char* data = binary->data();
    const std::size_t bytes = binary->size();
    cl_int refused = CL_SUCCESS;
    cl_int code = CL_SUCCESS;
    OwnedProgram program(cl().CreateProgramWithBinary(context_, 1, &device_, &bytes, &data, &refused, &code));
    if (program && code == CL_SUCCESS && refused == CL_SUCCESS &&
        cl().BuildProgram(program.get(), 1, &device_, all_options.c_str(), nullptr, nullptr) == CL_SUCCESS) {
      return program;
    }  // a driver may refuse what it made itself: then it compiles again
  }
  const char* texts[] = {common.data(), own.data()};
  const std::size_t lengths[] = {common.size(), own.size()};
  cl_int code = CL_SUCCESS;
  OwnedProgram program(cl().CreateProgramWithSource(context_, 2, texts, lengths, &code));
  check(code, "making a program");
  code = cl().BuildProgram(program.get(), 1, &device_, all_options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    throw Error(status_of(code), cat("compiling cl/", file, ".cl with ", options, ": ",
                                     build_log(program.get(), device_), " (", error_name(code), ")"));
  }
  if (!kept_file.empty()) {
    const auto binary = binary_of(program.get());
    if (!binary.empty()) (void)write_binary(kept_file, key, binary);
  }
  return program;
}

}  // namespace tern::opencl
