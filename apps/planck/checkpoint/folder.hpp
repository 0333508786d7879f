// What lies beside the checkpoint in its folder: what goes along into the output, and what stays behind.
//
// A tokenizer belongs to the model. Other weights (the same model for another program, or before it was quantised) do
// not: a loader that finds them may take them for the model. Neither does what git or a download tool keeps. What stays
// behind is told by name and size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace planck::cli {

/// Fills `others` and `left_out` of a checkpoint that was named by its folder; `copy_all` leaves out only what cannot
/// be copied, and what git and download tools keep about the original files.
Checkpoint with_folder_files(Checkpoint checkpoint, bool copy_all);

/// "copied: 5 other files, …", a line "left out: …" for each file or folder, and "folder: before -> after" with
/// `bytes_after` if something was written; nothing for a checkpoint that is no folder.
std::string folder_lines(const Checkpoint& checkpoint, std::optional<std::uint64_t> bytes_after);
/// The same as members folder_bytes_before, folder_bytes_after, copied_files and left_out.
void add_folder_members(JsonObject& object, const Checkpoint& checkpoint, std::optional<std::uint64_t> bytes_after);

}  // namespace planck::cli
