#include "io/yaml.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/strings.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace tern::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxNodes = 1'000'000;  // aliases can make a small text enormous

std::string place(const std::string& name, const YAML::Mark& mark) {
  if (mark.line < 0) return name;
  return cat(name, ":", mark.line + 1, ":", mark.column + 1);
}

template <typename Number>
bool read_number(std::string_view text, Number& value, int base = 10) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return code == std::errc() && end == text.data() + text.size();
}

bool read_float(std::string_view text, double& value) {
  std::string_view digits = text;
  if (!digits.empty() && (digits.front() == '+' || digits.front() == '-')) digits.remove_prefix(1);
  const bool negative = !text.empty() && text.front() == '-';
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") {
    value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (digits.empty() || !((digits.front() >= '0' && digits.front() <= '9') || digits.front() == '.')) return false;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return false;
  if (negative) value = -value;
  return true;
}

Json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const std::string_view unsigned_part =
      text.front() == '+' ? std::string_view(text).substr(1) : std::string_view(text);
  std::int64_t integer = 0;
  std::uint64_t natural = 0;
  if (read_number(unsigned_part, integer)) return integer;
  if (read_number(unsigned_part, natural)) return natural;
  if (text.starts_with("0x") && read_number(std::string_view(text).substr(2), natural, 16)) return natural;
  if (text.starts_with("0o") && read_number(std::string_view(text).substr(2), natural, 8)) return natural;
  double real = 0;
  if (read_float(text, real)) return real;
  return text;
}

class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  Json convert(const YAML::Node& node, int depth) {
    if (depth > kMaxNesting) {
      throw Failure(data_error(place(name_, node.Mark()), cat("YAML nested at most ", kMaxNesting, " deep"),
                               "deeper nesting or an alias of itself"));
    }
    if (++nodes_ > kMaxNodes) {
      throw Failure(
          data_error(place(name_, node.Mark()), cat("at most ", kMaxNodes, " values"), "more, with aliases expanded"));
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence:
        return sequence(node, depth);
      case YAML::NodeType::Map:
        return map(node, depth);
      default:
        return nullptr;
    }
  }

 private:
  Json scalar(const YAML::Node& node) const {
    const std::string& tag = node.Tag();
    if (tag == "?" || tag.empty()) return plain_scalar(node.Scalar());
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return node.Scalar();
    throw Failure(data_error(place(name_, node.Mark()), "a value without a tag", cat("the tag ", tag)));
  }

  Json sequence(const YAML::Node& node, int depth) {
    Json out = Json::array();
    for (const auto& item : node) out.push_back(convert(item, depth + 1));
    return out;
  }

  Json map(const YAML::Node& node, int depth) {
    Json out = Json::object();
    std::vector<std::pair<const std::string, Json>>& members = out.get_ref<Json::object_t&>();
    std::unordered_set<std::string> seen;
    for (const auto& item : node) {
      if (!item.first.IsScalar()) {
        throw Failure(data_error(place(name_, item.first.Mark()), "a key that is text", "a list, map or null"));
      }
      const std::string& key = item.first.Scalar();
      if (!seen.insert(key).second) {
        throw Failure(
            data_error(cat(place(name_, item.first.Mark()), ": key \"", key, "\""), "each key once", "the key twice"));
      }
      members.emplace_back(key, convert(item.second, depth + 1));
    }
    return out;
  }

  const std::string& name_;
  std::size_t nodes_ = 0;
};

}  // namespace

Result<Json> parse_yaml(std::string_view text, const std::string& name) {
  return catching([&]() -> Json {
    try {
      const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
      if (documents.empty()) return nullptr;
      if (documents.size() > 1) {
        throw Failure(data_error(place(name, documents[1].Mark()), "one YAML document", "a second one"));
      }
      return Converter(name).convert(documents[0], 0);
    } catch (const YAML::Exception& why) {
      throw Failure(data_error(place(name, why.mark), "YAML", why.msg));
    }
  });
}

Result<Json> read_yaml_file(const std::filesystem::path& path) {
  auto text = read_text_file(path);
  if (!text) return text.error();
  return parse_yaml(*text, path.string());
}

}  // namespace tern::io
