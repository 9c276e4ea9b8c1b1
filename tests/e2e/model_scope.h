// ModelScope's interface over folders: models/ORG/NAME/FILE and datasets/ORG/NAME/FILE, for whoever has the token
// `secret`.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "../unit/hub/fake_hub.h"

namespace tern::e2e {

inline std::string listing_of(const std::filesystem::path& folder) {
  std::string files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    files += files.empty() ? "" : ",";
    files += R"({"Type":")" + std::string(entry.is_directory() ? "tree" : "blob") + R"(","Path":")" +
             std::filesystem::relative(entry.path(), folder).string() + "\"";
    if (entry.is_regular_file()) files += ",\"Size\":" + std::to_string(entry.file_size());
    files += "}";
  }
  return R"({"Code":200,"Data":{"Files":[)" + files + "]}}";
}

inline hub::FakeReply answer_from(const std::filesystem::path& store, const hub::FakeRequest& request) {
  const auto token = request.headers.find("authorization");
  if (token == request.headers.end() || token->second != "Bearer secret") return {401, "", {}};
  const std::string api = "/api/v1/";
  const std::string& target = request.target;
  const std::size_t question = target.find('?');
  if (!target.starts_with(api) || question == std::string::npos) return {404, "", {}};
  const std::string place = target.substr(api.size(), question - api.size());  // models/ORG/NAME/repo[...]
  const std::string query = target.substr(question);
  if (query.find("Revision=master&") == std::string::npos && query.find("Revision=v2&") == std::string::npos) {
    return {404, "", {}};
  }
  const std::size_t repo = place.find("/repo");
  if (repo == std::string::npos) return {404, "", {}};
  const std::filesystem::path folder = store / place.substr(0, repo);
  if (!std::filesystem::is_directory(folder)) return {404, "", {}};
  const std::size_t file = query.find("FilePath=");
  if (file == std::string::npos) return {200, listing_of(folder), {}};
  std::string name = query.substr(file + 9);
  for (std::size_t at = name.find("%2F"); at != std::string::npos; at = name.find("%2F")) name.replace(at, 3, "/");
  std::ifstream in(folder / name, std::ios::binary);
  if (!in) return {404, "", {}};
  return {200, {std::istreambuf_iterator<char>(in), {}}, {}};
}

}  // namespace tern::e2e
