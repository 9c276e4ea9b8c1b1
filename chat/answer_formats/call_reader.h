// How one family writes calls, behind the marker that begins them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_formats/answer_parts.h"
#include "chat/answer_formats/json_stream.h"
#include "chat/answer_formats/marker_scanner.h"

namespace tern::chat {

class CallReader {
 public:
  virtual ~CallReader() = default;
  CallReader() = default;
  CallReader(const CallReader&) = delete;
  CallReader& operator=(const CallReader&) = delete;

  virtual void start(std::string_view marker) = 0;
  [[nodiscard]] virtual Fed feed(char c, AnswerParts& parts) = 0;
  [[nodiscard]] virtual bool finish(AnswerParts& parts) = 0;  // whether the text may end here
};

// The types of tools' parameters.
class ToolTypes {
 public:
  explicit ToolTypes(std::string_view tools_json);
  ~ToolTypes();
  ToolTypes(const ToolTypes&) = delete;
  ToolTypes& operator=(const ToolTypes&) = delete;

  // Whether the parameter takes texts and nothing else.
  [[nodiscard]] bool only_text(std::string_view tool, std::string_view parameter) const;
  // `text` as JSON of the first of the parameter's types that it can be read as, in vLLM's order: null, integer,
  // number, boolean, object, array, and a string where it's none. Without types: any JSON if `guess`, else a string.
  [[nodiscard]] std::string json(std::string_view tool, std::string_view parameter, const std::string& text,
                                 bool guess) const;

 private:
  struct Types;
  [[nodiscard]] std::vector<std::string> types(std::string_view tool, std::string_view parameter) const;
  std::unique_ptr<const Types> types_;
};

struct CallFormat {
  std::vector<std::string> begins;   // the markers in text behind which calls stand
  std::vector<std::string> dropped;  // markers around them that say nothing
  char bare = 0;                     // a byte that begins calls as the first of an answer
  bool special = false;              // these markers are special tokens
  std::string between = {};          // what may stand between calls beside blanks
  std::unique_ptr<CallReader> reader;
};

// Exactly one of some literals, behind blanks.
class Choice {
 public:
  explicit Choice(std::vector<std::string> literals) : literals_(std::move(literals)) {}
  // Fed::done with `index` set; Fed::broken where none can come any more.
  [[nodiscard]] Fed feed(char c, std::size_t& index);

 private:
  std::vector<std::string> literals_;
  std::string read_;
};

// The families, by vLLM's names.
[[nodiscard]] std::optional<CallFormat> json_format(std::string_view name);
[[nodiscard]] std::optional<CallFormat> named_format(std::string_view name);
[[nodiscard]] std::optional<CallFormat> xml_format(std::string_view name, const ToolTypes& types);
[[nodiscard]] std::optional<CallFormat> python_format(std::string_view name);

}  // namespace tern::chat
