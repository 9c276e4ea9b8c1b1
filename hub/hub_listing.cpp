// What a hub id is, and what the hubs' replies say.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>

#include "base/strings.h"
#include "hub/hub.h"
#include "io/json_field.h"
#include "io/mapped_file.h"

namespace tern::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 100'000;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 46;  // so that no sum of sizes overflows
constexpr const char* kNoHub = "check the endpoint: it does not answer as the hub does";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool truthy(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

bool name_part(std::string_view part) {
  if (part.empty() || part.size() > 96 || part.front() == '.' || part.front() == '-' ||
      part.find("..") != std::string_view::npos)
    return false;
  return std::all_of(part.begin(), part.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

std::string_view without_prefix(std::string_view text) {
  return text.starts_with("hf::") || text.starts_with("ms::") ? text.substr(4) : text;
}

// A path of a repository stays in its folder, and cannot name what the cache uses for itself.
bool safe_path(const std::string& path) {
  if (path.empty() || path.size() > 1024 || path.front() == '/' || path.find('\\') != std::string::npos) return false;
  if (std::any_of(path.begin(), path.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return false;
  for (std::string_view part : split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

bool hexadecimal(const std::string& text, std::size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::uint64_t natural_of(const io::JsonField& object, const char* key) {
  const auto found = object.find(key);
  return found ? found->natural() : 0;
}

void add_file(HubListing& listing, HubFile file, std::set<std::string>& seen, const std::string& name) {
  if (!safe_path(file.path))
    throw Failure(data_error(name, "file names inside the repository", cat("\"", file.path, "\""),
                             "report the repository to its hub"));
  if (!seen.insert(file.path).second) return;
  if (file.size > kMaxSize)
    throw Failure(data_error(cat(name, ": ", file.path), "a size below 2^46", cat(file.size),
                             "report the repository to its hub"));
  if (listing.files.size() >= kMaxFiles)
    throw Failure(data_error(name, cat("at most ", kMaxFiles, " files"), "more",
                             "fetch the files that are needed, and name their folder"));
  if (!hexadecimal(file.sha256, 64)) file.sha256.clear();
  if (!hexadecimal(file.git_sha1, 40)) file.git_sha1.clear();
  listing.files.push_back(std::move(file));
}

HubListing hugging_face_listing(const io::JsonField& json, const std::string& name) {
  HubListing listing;
  std::set<std::string> seen;
  const io::JsonField commit = json.at("sha");
  listing.commit = commit.text();
  if (!hexadecimal(listing.commit, 40)) throw commit.wrong("a commit");
  for (const io::JsonField& entry : json.at("siblings").items()) {
    HubFile file{entry.text("rfilename", ""), natural_of(entry, "size"), "", entry.text("blobId", "")};
    if (const auto lfs = entry.find("lfs")) {
      file.sha256 = lfs->text("sha256", "");
      if (file.size == 0) file.size = natural_of(*lfs, "size");
      file.git_sha1.clear();  // of the pointer, not of the content
    }
    add_file(listing, std::move(file), seen, name);
  }
  return listing;
}

HubListing modelscope_listing(const io::JsonField& json, const std::string& name) {
  HubListing listing;
  std::set<std::string> seen;
  const auto data = json.find("Data");
  const auto files = data && data->json().is_object() ? data->find("Files") : std::nullopt;
  if (!files) {
    const std::string message = json.text("Message", "none").substr(0, 100);
    throw Failure(json.place().error("an array \"Data.Files\"", message, kNoHub));
  }
  for (const io::JsonField& entry : files->items()) {
    if (entry.text("Type", "") == "tree") continue;
    add_file(listing, {entry.text("Path", ""), natural_of(entry, "Size"), entry.text("Sha256", ""), ""}, seen, name);
  }
  return listing;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "x-00001-of-00003.gguf" and its other parts are "x.gguf".
std::string whole_name(const std::string& file) {
  constexpr std::size_t kPart = std::string_view("-00001-of-00003.gguf").size();
  if (file.size() <= kPart) return file;
  const std::string_view tail = std::string_view(file).substr(file.size() - kPart);
  const auto digits = [](std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const bool part = tail[0] == '-' && digits(tail.substr(1, 5)) && tail.substr(6, 4) == "-of-" &&
                    digits(tail.substr(10, 5)) && tail.ends_with(".gguf");
  return part ? file.substr(0, file.size() - kPart) + ".gguf" : file;
}

// Whether `select` is the end of the model's name, from a separator on: Q4_K_M of "model-Q4_K_M.gguf".
bool ends_with_word(const std::string& model, const std::string& select) {
  const std::string stem = lower(fs::path(model).stem().string());
  if (!stem.ends_with(lower(select))) return false;
  return stem.size() == select.size() ||
         std::isalnum(static_cast<unsigned char>(stem[stem.size() - select.size() - 1])) == 0;
}

// 4 of "model-Q4_K_M.gguf", 16 of "mmproj-BF16.gguf": the last such word of the name; 0: there is none.
std::int64_t bits_of(const std::string& file) {
  const std::string stem = lower(fs::path(file).stem().string());
  std::int64_t bits = 0;
  for (std::size_t at = 0; at < stem.size(); ++at) {
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(stem[at - 1])) == 0;
    std::size_t digits = at;
    while (begins && digits < stem.size() && digits < at + 2 &&
           std::string_view("iqbf").find(stem[digits]) != std::string_view::npos)
      ++digits;
    if (digits == at) continue;
    std::int64_t number = 0;
    const auto read = std::from_chars(stem.data() + digits, stem.data() + stem.size(), number);
    if (read.ec == std::errc() && number <= 32) bits = number;
  }
  return bits;
}

}  // namespace

Result<std::vector<std::string>> choose_gguf(const std::vector<std::string>& all, const std::string& select,
                                             const std::string& name) {
  std::map<std::string, std::vector<std::string>> models;  // parts by the whole's name
  for (const std::string& file : all) {
    if (file.ends_with(".gguf")) models[whole_name(file)].push_back(file);
  }
  std::vector<std::string> known;
  std::vector<std::string> meant;
  for (auto& [model, parts] : models) {
    std::sort(parts.begin(), parts.end());
    const std::string base = fs::path(model).filename().string();
    const auto is_file = [&](const std::string& file) { return file == select || fs::path(file).filename() == select; };
    if (!select.empty() && (is_file(model) || std::any_of(parts.begin(), parts.end(), is_file))) return parts;
    if (base.find("mmproj") != std::string::npos || base.find("imatrix") != std::string::npos) continue;
    known.push_back(model);
    if (select.empty() || ends_with_word(model, select)) meant.push_back(model);
  }
  if (meant.size() == 1) return models[meant.front()];
  const std::string mend = cat("name one as ", name, ":FILE: ", join(known, ", "));
  if (known.empty())
    return data_error(name, "a GGUF file", "none in the repository", "name a repository with GGUF files");
  if (select.empty()) return data_error(name, "one GGUF model", cat(known.size(), " of them"), mend);
  return data_error(cat(name, ":", select), "one GGUF model of that name or quantisation",
                    meant.empty() ? std::string("none") : join(meant, ", "), mend);
}

std::string choose_mmproj(const std::vector<std::string>& all, const std::string& model) {
  const fs::path home = fs::path(model).parent_path();
  const std::int64_t wanted = bits_of(model);
  std::string best;
  std::pair<std::ptrdiff_t, std::int64_t> best_rank;
  for (const std::string& file : all) {
    if (!file.ends_with(".gguf") || fs::path(file).filename().string().find("mmproj") == std::string::npos) continue;
    const fs::path folder = fs::path(file).parent_path();
    const auto [rest, of_home] = std::mismatch(folder.begin(), folder.end(), home.begin(), home.end());
    if (rest != folder.end()) continue;
    const std::pair rank(-std::distance(folder.begin(), folder.end()), std::abs(bits_of(file) - wanted));
    if (!best.empty() && best_rank <= rank) continue;
    best = file;
    best_rank = rank;
  }
  return best;
}

bool looks_like_hub_id(std::string_view text) {
  const std::string_view id = without_prefix(text);
  const std::size_t slash = id.find('/');
  return slash != std::string_view::npos && name_part(id.substr(0, slash)) && name_part(id.substr(slash + 1));
}

Result<HubId> parse_hub_id(std::string_view text, HubKind kind, bool use_hf, std::string_view revision) {
  if (!looks_like_hub_id(text))
    return data_error(cat("\"", text, "\""), "a hub id ORG/NAME, hf::ORG/NAME or ms::ORG/NAME", "another form",
                      "write it so, or check the path");
  const bool safe = revision.empty() || safe_path(std::string(revision));
  if (!safe)
    return usage_error(cat("revision \"", revision, "\" is not the name of a branch, tag or commit"),
                       "name one, such as main or v1.0");
  HubId id{use_hf ? Hub::hugging_face : Hub::modelscope, kind, std::string(without_prefix(text)),
           std::string(revision)};
  if (text.starts_with("hf::")) id.hub = Hub::hugging_face;
  if (text.starts_with("ms::")) id.hub = Hub::modelscope;
  return id;
}

HubOptions hub_options_from_environment(Hub hub) {
  HubOptions options;
  const fs::path home = environment("HOME").empty() ? fs::path(".") : fs::path(environment("HOME"));
  const fs::path caches =
      environment("XDG_CACHE_HOME").empty() ? home / ".cache" : fs::path(environment("XDG_CACHE_HOME"));
  options.offline = truthy(environment("HF_HUB_OFFLINE"));
  if (hub == Hub::hugging_face) {
    options.endpoint = environment("HF_ENDPOINT");
    if (options.endpoint.empty()) options.endpoint = "https://huggingface.co";
    const fs::path root = environment("HF_HOME").empty() ? caches / "huggingface" : fs::path(environment("HF_HOME"));
    options.cache = environment("HF_HUB_CACHE").empty() ? root / "hub" : fs::path(environment("HF_HUB_CACHE"));
    options.token = environment("HF_TOKEN");
    const fs::path file =
        environment("HF_TOKEN_PATH").empty() ? root / "token" : fs::path(environment("HF_TOKEN_PATH"));
    if (options.token.empty() && !truthy(environment("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) {
      if (auto text = io::read_text_file(file, 4096); text.ok()) options.token = trim(*text);
    }
  } else {
    options.endpoint = environment("MODELSCOPE_ENDPOINT");
    if (options.endpoint.empty()) options.endpoint = environment("MODELSCOPE_DOMAIN");
    if (options.endpoint.empty()) options.endpoint = "https://modelscope.cn";
    options.cache = environment("MODELSCOPE_CACHE").empty() ? home / ".cache/modelscope"
                                                            : fs::path(environment("MODELSCOPE_CACHE"));
    options.token = environment("MODELSCOPE_API_TOKEN");
  }
  if (options.endpoint.find("://") == std::string::npos) options.endpoint = "https://" + options.endpoint;
  options.endpoint = without_slash(options.endpoint);
  return options;
}

bool wanted_file(const std::string& path, const std::vector<std::string>& all) {
  static const std::set<std::string> kOther = {".bin",       ".pth", ".pt",     ".ckpt",    ".h5",  ".msgpack", ".onnx",
                                               ".onnx_data", ".ot",  ".tflite", ".mlmodel", ".zip", ".tar"};
  const std::string extension = fs::path(path).extension().string();
  if (path == ".gitattributes" || kOther.contains(extension)) return false;
  if (path.starts_with("original/") || path.starts_with("onnx/")) return false;
  if (extension != ".gguf") return true;
  return std::none_of(all.begin(), all.end(), [](const std::string& name) { return name.ends_with(".safetensors"); });
}

Result<HubListing> parse_hub_listing(Hub hub, std::string_view text, const std::string& name) {
  return catching([&] {
    const io::Json reply = io::parse_json(text, name).value();
    const io::JsonField json(reply, name, kNoHub);
    return hub == Hub::hugging_face ? hugging_face_listing(json, name) : modelscope_listing(json, name);
  });
}

}  // namespace tern::hub
