// Outputs against other writers: what another program puts in their place meanwhile is never lost, and the loser of two
// is told so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "checkpoint/file.hpp"
#include "terminal/failure.hpp"

namespace planck::cli {
namespace {

class Outputs : public testing::TestWithParam<Output::Kind> {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  bool folder() const { return GetParam() == Output::Kind::Folder; }
  fs::path place() const { return root_ / "out.safetensors"; }
  fs::path inner(const fs::path& output) const { return folder() ? output / "model.safetensors" : output; }

  Output begin(bool force) const { return Output(place(), GetParam(), force, {}, {"model.safetensors"}); }
  void fill(const Output& output, const char* contents) const { write_text(inner(output.temporary()), contents); }
  void put(const char* contents) const {
    Output output = begin(false);
    fill(output, contents);
    output.publish();
  }
  std::string written() const { return read_text(File::open(inner(place())), 100); }
  /// What remains in the folder of the outputs.
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(root_), fs::directory_iterator()); }

  static std::string refusal(Output& output) {
    try {
      output.publish();
      return {};
    } catch (const Failure& failure) {
      return failure.what();
    }
  }

 private:
  fs::path root_ = fs::path(testing::TempDir()) / text("planck_outputs_", getpid());
};

class Folders : public Outputs {};

TEST_P(Outputs, TheSecondOfTwoWritersIsToldAndTheFirstStays) {
  for (const bool force : {false, true}) {
    for (const bool old : {false, true}) {
      if (old && !force) continue;
      fs::remove_all(place());
      if (old) put("old");
      {
        Output first = begin(force);
        Output second = begin(force);
        fill(first, "first");
        fill(second, "second");
        first.publish();
        EXPECT_EQ(written(), "first");
        EXPECT_NE(refusal(second).find("another program wrote"), std::string::npos) << force << old;
      }
      EXPECT_EQ(written(), "first") << force << old;
      EXPECT_EQ(files(), 1) << force << old;
    }
  }
}

TEST_P(Folders, AnEmptyFolderThatAnotherProgramFilledStays) {
  fs::create_directory(place());
  Output output = begin(false);
  fill(output, "mine");
  write_text(inner(place()), "theirs");
  EXPECT_NE(refusal(output).find("another program wrote"), std::string::npos);
  EXPECT_EQ(written(), "theirs");
}

TEST_P(Outputs, AnOldOutputThatIsGoneByThenNeedsNoReplacing) {
  put("old");
  Output output = begin(true);
  fill(output, "new");
  fs::remove_all(place());
  output.publish();
  EXPECT_EQ(written(), "new");
  EXPECT_EQ(files(), 1);
}

TEST_P(Folders, FilesThatAppearDuringTheRunAreNotDeleted) {
  put("old");
  Output output = begin(true);
  fill(output, "new");
  write_text(place() / "notes.txt", "mine");
  EXPECT_NE(refusal(output).find("\"notes.txt\""), std::string::npos);
  EXPECT_EQ(written(), "old");
  EXPECT_EQ(read_text(File::open(place() / "notes.txt"), 100), "mine");
}

INSTANTIATE_TEST_SUITE_P(Kind, Folders, testing::Values(Output::Kind::Folder));
INSTANTIATE_TEST_SUITE_P(Kinds, Outputs, testing::Values(Output::Kind::File, Output::Kind::Folder),
                         [](const auto& kind) { return kind.param == Output::Kind::File ? "File" : "Folder"; });

}  // namespace
}  // namespace planck::cli
