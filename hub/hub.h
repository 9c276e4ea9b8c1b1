// Models and data sets from Hugging Face and ModelScope, into the caches that their own tools use, so that what is
// there already is not fetched again and what tern fetches serves them too.
//
// Downloads run side by side, resume after a cut, and are held to the hub's own checksums. Two processes that want the
// same file wait for each other. Environment: HF_TOKEN (or $HF_HOME/token), HF_ENDPOINT, HF_HOME, HF_HUB_CACHE,
// HF_HUB_OFFLINE; MODELSCOPE_API_TOKEN, MODELSCOPE_ENDPOINT (or MODELSCOPE_DOMAIN), MODELSCOPE_CACHE. ModelScope has no
// offline variable of its own: HF_HUB_OFFLINE stands for both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::hub {

enum class Hub { hugging_face, modelscope };
enum class HubKind { model, dataset };

struct HubId {
  Hub hub = Hub::modelscope;
  HubKind kind = HubKind::model;
  std::string repository;  // ORG/NAME
  std::string revision;    // empty: the hub's default branch
};

// "ORG/NAME", "hf::ORG/NAME", "ms::ORG/NAME". A bare one is ModelScope's, or Hugging Face's with `use_hf`. An Error
// where the text has not that form.
[[nodiscard]] Result<HubId> parse_hub_id(std::string_view text, HubKind kind, bool use_hf,
                                         std::string_view revision = {});
// Whether a `--model` or `--dataset` value has the form of a hub id (a path that exists is to be tried before).
[[nodiscard]] bool looks_like_hub_id(std::string_view text);

struct HubOptions {
  std::string endpoint;  // without a slash at its end
  std::filesystem::path cache;
  std::string token;
  bool offline = false;
  int parallel = 4;
  int attempts = 6;       // of one request, the cuts that made progress not counted
  double first_wait = 1;  // seconds before the second attempt; doubles, at most 60; Retry-After wins
  // Which files of a repository to fetch; absent: `wanted_file`.
  std::function<bool(const std::string& path, const std::vector<std::string>& all)> wanted;
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // bytes; false stops
};

[[nodiscard]] HubOptions hub_options_from_environment(Hub hub);

// Not fetched for a model: weights of other frameworks, pickles, and GGUF files beside safetensors.
[[nodiscard]] bool wanted_file(const std::string& path, const std::vector<std::string>& all);

// Of a repository's files the GGUF model that `select` means, all parts of a split one in order: a file's name, or the
// quantisation at its name's end (Q4_K_M, in either case), as llama.cpp's -hf and vLLM take them behind ORG/NAME:. ""
// where there is but one; projectors and importance matrices are meant by their whole name only. Errors (data): none
// such, or several, which are listed. `name` is the repository's.
[[nodiscard]] Result<std::vector<std::string>> choose_gguf(const std::vector<std::string>& all,
                                                           const std::string& select, const std::string& name);

// The mmproj file that goes with a GGUF, `model` among them, as llama.cpp's -hf chooses it: "mmproj" is in its name,
// its folder is the model's or one above; the nearest folder first, then the number of bits that is nearest to the
// model's.
// "": there is none.
[[nodiscard]] std::string choose_mmproj(const std::vector<std::string>& all, const std::string& model);

// The directory that holds the repository's files, fetched where they are not there yet.
[[nodiscard]] Result<std::filesystem::path> fetch_repository(const HubId& id, const HubOptions& options);

struct HubFile {
  std::string path;
  std::uint64_t size = 0;
  std::string sha256;    // or empty
  std::string git_sha1;  // or empty
};
struct HubListing {
  std::string commit;  // Hugging Face
  std::vector<HubFile> files;
};
// A hub's reply to a listing request: foreign text, so every path is held inside the repository's folder.
[[nodiscard]] Result<HubListing> parse_hub_listing(Hub hub, std::string_view text, const std::string& name);

}  // namespace tern::hub
