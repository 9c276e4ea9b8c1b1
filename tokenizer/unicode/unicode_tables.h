// Character data made by script/golden.d/unicode_tables.py; text/unicode.h is the interface to use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::tokenizer {

struct CharRange {
  std::uint32_t first, last;
  std::int32_t value;
};

extern const std::uint16_t unicode_classes[];  // CharFlag masks
extern const std::size_t unicode_classes_size;
extern const std::uint32_t unicode_runs[];  // first code point << 8 | index into unicode_classes, ascending
extern const std::size_t unicode_runs_size;
extern const CharRange lower_exceptions[];  // value: added to the code point, where utf8proc knows another lower case
extern const std::size_t lower_exceptions_size;
extern const CharRange pcre_shadows[];  // value: the code point to match in place of these
extern const std::size_t pcre_shadows_size;
extern const std::uint32_t script_runs[];  // first code point << 8 | script number; 0 belongs to any script
extern const std::size_t script_runs_size;

}  // namespace tern::tokenizer
