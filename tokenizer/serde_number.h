// Numbers of a JSON file as Hugging Face's tokenizers has them in memory.
#pragma once

namespace tern::tokenizer {

// The tokenizers library reads JSON by serde_json, whose numbers are off by an ulp in one of seven: its digits as an
// integer, then one multiplication or division by a power of ten, rounded twice. Sums of such scores decide between
// splits of a text that are nearly equal, so they must be the same ones. `exact`: the number read without an error;
// its shortest digits are taken for those of the file, as every writer of tokenizer.json writes those.
[[nodiscard]] double serde_number(double exact);

}  // namespace tern::tokenizer
