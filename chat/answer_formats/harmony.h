// gpt-oss's Harmony: an answer is messages, whose headers say what they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_formats/answer_parts.h"
#include "chat/answer_formats/json_stream.h"
#include "chat/answer_formats/marker_scanner.h"

namespace tern::chat {

// The channel analysis is thoughts, a message to functions.NAME a call, everything else content.
class HarmonyParser : public AnswerParser {
 public:
  explicit HarmonyParser(const ParserOptions& options);
  [[nodiscard]] std::vector<AnswerPart> push(std::string_view text) override;
  [[nodiscard]] std::vector<AnswerPart> finish() override;

 private:
  enum class At { header, analysis, content, call, called };
  void feed(char c);
  void header(char c);
  void open();        // the message whose header is read
  void body(char c);  // a byte that is of no marker
  void close();

  AnswerParts parts_;
  bool calls_;
  At at_ = At::header;
  MarkerScanner message_, end_;
  std::string header_, text_;
  JsonArguments arguments_;
  bool argued_ = false;
};

}  // namespace tern::chat
