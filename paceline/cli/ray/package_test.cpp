#include "paceline/cli/ray/package.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/cli/program_fixture.h"
#include "paceline/cli/ray/job.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::write_file;

// As Python's zipfile, which Ray unpacks with, reads it.
std::string listed(const Package& package, const std::string& file) {
  write_file(file, package.bytes);
  return run_command_line("python3 -c \"import sys, zipfile\nwith zipfile.ZipFile('" + file +
                          "') as z:\n for i in z.infolist(): print(i.filename, oct(i.external_attr >> 16)[-3:],"
                          " len(z.read(i)))\"")
      .output;
}

TEST(Package, HasTheFilesWithTheirRights) {
  const testing::TemporaryFolder folder;
  write_file(folder / "work/train", "#!/bin/sh\n");
  write_file(folder / "work/data/größe.txt", std::string(100'000, 'x'));
  write_file(folder / "work/.git/config", "");
  std::filesystem::create_directories(folder / "work/empty");
  std::filesystem::create_symlink(folder / "work/train", folder / "work/link");
  std::filesystem::create_directory_symlink(folder / "work", folder / "work/data/round");
  std::filesystem::create_symlink("nowhere", folder / "work/broken");
  std::filesystem::permissions(folder / "work/train", std::filesystem::perms(0755));
  std::filesystem::permissions(folder / "work/data/größe.txt", std::filesystem::perms(0640));
  const Package package = make_package(folder / "work").ValueOrDie();
  EXPECT_EQ(listed(package, folder / "package.zip"),
            "data/größe.txt 640 100000\nempty/ 755 0\nlink 755 10\ntrain 755 10\n");
}

TEST(Package, IsNamedAfterWhatIsInIt) {
  const testing::TemporaryFolder folder;
  write_file(folder / "one/train", "a");
  write_file(folder / "two/train", "a");
  const std::string name = make_package(folder / "one").ValueOrDie().name;
  EXPECT_THAT(name, ::testing::MatchesRegex("_ray_pkg_[0-9a-f]+\\.zip"));
  EXPECT_EQ(make_package(folder / "two").ValueOrDie().name, name);
  std::filesystem::permissions(folder / "two/train", std::filesystem::perms(0755));
  EXPECT_NE(make_package(folder / "two").ValueOrDie().name, name) << "a program has other rights";
}

TEST(Package, LeavesOutWhatRayignoreNames) {
  const testing::TemporaryFolder folder;
  write_file(folder / ".rayignore", "*.o\n/data/\n# a comment\n");
  write_file(folder / ".gitignore", "build/\n");
  for (const char* name : {"build/train", "build/main.o", "data/large", "src/data/small", "src/out/.keep"}) {
    write_file(folder / name, "");
  }
  write_file(folder / "src/.rayignore", "out\n");
  EXPECT_EQ(listed(make_package(folder.path()).ValueOrDie(), folder / "data/package.zip"),
            ".gitignore 644 7\n.rayignore 644 23\nbuild/train 644 0\nsrc/.rayignore 644 4\nsrc/data/small 644 0\n");
}

TEST(Package, OfMoreThanRayTakesNamesTheLargestFiles) {
  const testing::TemporaryFolder folder;
  write_file(folder / "weights.bin", "");
  std::filesystem::resize_file(folder / "weights.bin", kMostPackageBytes);
  const auto package = make_package(folder.path());
  EXPECT_THAT(package.status().message(),
              AllOf(HasSubstr("weights.bin (500 MiB)"), HasSubstr(folder.path() + "/.rayignore")));
  EXPECT_THAT(make_package(folder / "none").status().message(), HasSubstr("there is no folder"));
}

TEST(IgnorePatterns, AreThoseOfGitignore) {
  const IgnorePatterns patterns("*.log\n!keep.log\n/top\nlogs/\na/*/c\n**/deep/x\ntmp/**\n[ab]?.txt\nodd\\*\n");
  const auto ignores = [&](const char* path) { return patterns.ignores(path, false); };
  EXPECT_TRUE(ignores("x.log"));
  EXPECT_TRUE(ignores("a/b/x.log"));
  EXPECT_FALSE(ignores("a/keep.log"));
  EXPECT_TRUE(ignores("top"));
  EXPECT_FALSE(ignores("a/top"));
  EXPECT_FALSE(ignores("logs")) << "only a folder is meant";
  EXPECT_TRUE(patterns.ignores("a/logs", true));
  EXPECT_TRUE(ignores("a/b/c"));
  EXPECT_FALSE(ignores("a/b/d/c"));
  EXPECT_TRUE(ignores("deep/x"));
  EXPECT_TRUE(ignores("a/b/deep/x"));
  EXPECT_TRUE(ignores("tmp/any/thing"));
  EXPECT_TRUE(ignores("b1.txt"));
  EXPECT_FALSE(ignores("c1.txt"));
  EXPECT_TRUE(ignores("odd*"));
  EXPECT_FALSE(ignores("oddly"));
}

TEST(JobCommand, IsTheCommandLineOnceMore) {
  const RunFlags flags = parse_run_flags({"-n", "4", "--engine", "ray", "--address=http://h:8265", "--working-dir", "w",
                                          "--name", "it's", "-q", "./train", "--lr", "0.1", "$HOME", ""},
                                         {.variables = [](const std::string& name) -> std::optional<std::string> {
                                           if (name == "PET_MAX_RESTARTS") return "2";
                                           return std::nullopt;
                                         }})
                             .ValueOrDie();
  EXPECT_EQ(
      job_command(flags),
      "exec python -m paceline._ray.program --num-workers=4 '--name=it'\\''s' --quiet --max-restarts=2 -- ./train "
      "--lr 0.1 '$HOME' ''");
}

}  // namespace
}  // namespace paceline::cli
