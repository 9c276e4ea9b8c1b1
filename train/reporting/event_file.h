// TensorBoard's event files: Event messages of protobuf (wire.h), each framed as TensorFlow's records are.
// https://www.tensorflow.org/tutorials/load_data/tfrecord, tensorboard/compat/proto/{event,summary,tensor}.proto
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::train {

// length, its masked CRC-32C, the bytes, theirs.
[[nodiscard]] std::string record(std::string_view bytes);

// The first message of a file; TensorBoard judges a file's format by it.
[[nodiscard]] std::string version_event(double wall_time);
[[nodiscard]] std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, double value);
// As SummaryWriter.add_text writes it; the tag gains "/text_summary".
[[nodiscard]] std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text);

// The sound records of a file, up to the first that is cut short or doesn't match its checksum, whose step is at most
// `last`, framed as they were.
[[nodiscard]] std::string records_until(std::string_view file, std::int64_t last);

}  // namespace tern::train
