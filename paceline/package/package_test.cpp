#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "paceline/package/cache.h"
#include "paceline/package/collect.h"
#include "paceline/package/manifest.h"
#include "paceline/package/unpack.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::package {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> paths_of(const Manifest& manifest) {
  std::vector<std::string> paths;
  for (const PackagedFile& file : manifest) paths.push_back(file.path);
  return paths;
}

class PackageTest : public ::testing::Test {
 protected:
  std::string write(const std::string& path, const std::string& text) {
    const fs::path file = fs::path(folder_.path()) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }
  std::string path(const std::string& below) const { return folder_.path() + "/" + below; }
  Cache cache() { return Cache::open(path("cache")).ValueOrDie(); }
  Package collected(const std::vector<Root>& roots, const CollectOptions& options = {}) {
    return collect(roots, options, cache()).ValueOrDie();
  }
  std::string problem_of(const Manifest& manifest) { return decode(encode(manifest)).status().message(); }

  const testing::TemporaryFolder folder_;
};

TEST_F(PackageTest, AManifestComesBackAsItWas) {
  const Manifest manifest = {{.path = "a b", .sha256 = kOfAbc, .bytes = 3, .executable = true},
                             {.path = "folder/link", .link = "../a b"},
                             {.path = "folder/\xff", .sha256 = kOfAbc, .bytes = 3}};  // no UTF-8
  EXPECT_EQ(decode(encode(manifest)).ValueOrDie(), manifest);
  EXPECT_EQ(bytes_of(manifest), 6);
}

TEST_F(PackageTest, WhatLeadsOutOfThePackageIsRefused) {
  for (const char* path : {"/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "", "./a", ".."}) {
    EXPECT_THAT(problem_of({{.path = path, .sha256 = kOfAbc}}), HasSubstr("none in a package")) << path;
  }
  for (const char* link : {"/etc/passwd", "../../x", "../..", "../a/../../x"}) {
    EXPECT_THAT(problem_of({{.path = "a/link", .link = link}}), HasSubstr("links out of")) << link;
  }
  EXPECT_THAT(problem_of({{.path = "a", .link = "b"}, {.path = "a/file", .sha256 = kOfAbc}}),
              HasSubstr("below a link"));
  EXPECT_THAT(problem_of({{.path = "a", .sha256 = "../../etc/passwd"}}), HasSubstr("no checksum"));
  EXPECT_THAT(problem_of({{.path = "b", .sha256 = kOfAbc}, {.path = "a", .sha256 = kOfAbc}}),
              HasSubstr("not in order"));
  EXPECT_THAT(problem_of({{.path = "a", .sha256 = kOfAbc}, {.path = "a", .sha256 = kOfAbc}}),
              HasSubstr("not in order"));
  for (const char* text : {"x", "[]\n", "{\"path\": 3}\n", "{}\n", "\n"}) EXPECT_FALSE(decode(text).ok()) << text;
}

TEST_F(PackageTest, ContentsAreThereWhenTheyAreWholeAndRight) {
  const Cache cache = this->cache();
  {
    Cache::Writer writer = cache.write(kOfAbc).ValueOrDie();
    ASSERT_TRUE(writer.add("ab").ok());
    EXPECT_FALSE(cache.has(kOfAbc, 3));
    ASSERT_TRUE(writer.add("c").ok());
    ASSERT_TRUE(writer.finish().ok());
  }
  EXPECT_TRUE(cache.has(kOfAbc, 3));
  EXPECT_FALSE(cache.has(kOfAbc, 4));
  EXPECT_EQ(text_of(cache.path_of(kOfAbc)), "abc");
  const std::string other(64, '0');
  {
    Cache::Writer writer = cache.write(other).ValueOrDie();
    ASSERT_TRUE(writer.add("abc").ok());
    const arrow::Status finished = writer.finish();
    EXPECT_TRUE(finished.IsInvalid());
    EXPECT_THAT(finished.message(), AllOf(HasSubstr(other), HasSubstr(kOfAbc)));
  }
  EXPECT_FALSE(cache.has(other, 3));
  EXPECT_EQ(std::distance(fs::directory_iterator(cache.folder()), {}), 1);  // no remains
}

TEST_F(PackageTest, AFolderThatOthersMayWriteIsRefused) {
  fs::create_directory(path("open"));
  ::chmod(path("open").c_str(), 0777);
  EXPECT_THAT(Cache::open(path("open")).status().message(), HasSubstr("chmod 700"));
}

TEST_F(PackageTest, WhatWasUsedLongestAgoMakesRoom) {
  const Cache cache = this->cache();
  const auto now = fs::file_time_type::clock::now();
  std::vector<std::string> sums;
  for (int hours : {5, 3, 4, 0}) {
    sums.push_back(cache.add_file(write("file", std::to_string(hours))).ValueOrDie());
    fs::last_write_time(cache.path_of(sums.back()), now - std::chrono::hours(hours));
  }
  fs::last_write_time(write("cache/.part_1", "x"), now - std::chrono::hours(2));
  cache.trim(2);
  const std::vector<bool> there = {cache.has(sums[0], 1), cache.has(sums[1], 1), cache.has(sums[2], 1),
                                   cache.has(sums[3], 1)};
  EXPECT_THAT(there, ElementsAre(false, true, false, true));
  EXPECT_FALSE(fs::exists(path("cache/.part_1")));
  cache.trim(0);
  EXPECT_TRUE(cache.has(sums[3], 1));  // used just now: somebody may be about to take it
}

TEST_F(PackageTest, AFolderTravels) {
  write("code/train.py", "train");
  write("code/models/vit.py", "vit");
  ::chmod(write("code/run.sh", "run").c_str(), 0755);
  write("code/.git/config", "secret");
  write("code/models/__pycache__/vit.pyc", "old");
  write("outside.txt", "outside");
  fs::create_symlink("models/vit.py", path("code/model.py"));
  fs::create_symlink(path("code/models"), path("code/zoo"));
  fs::create_symlink("../outside.txt", path("code/outside.txt"));
  fs::create_symlink("nowhere", path("code/broken"));
  fs::create_symlink(".git/config", path("code/settings"));
  ::mkfifo(path("code/pipe").c_str(), 0600);
  const Package package = collected({{.path = path("code")}});
  EXPECT_THAT(paths_of(package.manifest),
              UnorderedElementsAre("train.py", "models/vit.py", "run.sh", "model.py", "zoo", "outside.txt"));
  EXPECT_TRUE(decode(encode(package.manifest)).ok());
  ASSERT_TRUE(unpack(package.manifest, cache(), path("there"), Content::copied).ok());
  EXPECT_EQ(text_of(path("there/zoo/vit.py")), "vit");
  EXPECT_EQ(text_of(path("there/model.py")), "vit");
  EXPECT_EQ(text_of(path("there/outside.txt")), "outside");
  EXPECT_EQ(::access(path("there/run.sh").c_str(), X_OK), 0);
  EXPECT_EQ(fs::status(path("there/train.py")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(PackageTest, APackageIsWhatItWasWhenItWasCollected) {
  write("code/train.py", "first");
  const Package package = collected({{.path = path("code")}});
  write("code/train.py", "second");
  ASSERT_TRUE(unpack(package.manifest, cache(), path("there"), Content::copied).ok());
  EXPECT_EQ(text_of(path("there/train.py")), "first");
  std::ofstream(path("there/train.py")) << "changed by a worker";
  ASSERT_TRUE(unpack(package.manifest, cache(), path("again"), Content::copied).ok());
  EXPECT_EQ(text_of(path("again/train.py")), "first");
  EXPECT_NE(collected({{.path = path("code")}}).checksum, package.checksum);
}

TEST_F(PackageTest, RootsHaveNames) {
  write("code/mine/__init__.py", "");
  write("code/alone.py", "alone");
  const Package package = collected({{path("code/mine"), "mine"}, {path("code/alone.py"), "alone.py"}});
  EXPECT_THAT(paths_of(package.manifest), ElementsAre("alone.py", "mine/__init__.py"));
  EXPECT_THAT(collect({{path("absent"), ""}}, {}, cache()).status().message(), HasSubstr(path("absent")));
}

TEST_F(PackageTest, PatternsLeaveOut) {
  for (const char* name :
       {"a.py", "a.bin", "data/b.bin", "data/b.py", "models/data/c.py", "logs", "models/logs/d.py"}) {
    write(std::string("code/") + name, name);
  }
  const auto left = [&](std::vector<std::string> excludes) {
    return paths_of(collected({{.path = path("code")}}, {.excludes = std::move(excludes)}).manifest);
  };
  EXPECT_THAT(left({"*.bin"}), ElementsAre("a.py", "data/b.py", "logs", "models/data/c.py", "models/logs/d.py"));
  EXPECT_THAT(left({"/data"}), ElementsAre("a.bin", "a.py", "logs", "models/data/c.py", "models/logs/d.py"));
  EXPECT_THAT(left({"data", "logs/"}), ElementsAre("a.bin", "a.py", "logs"));
  EXPECT_THAT(left({"models/*.py", "*.bin"}), ElementsAre("a.py", "data/b.py", "logs"));
}

TEST_F(PackageTest, TooMuchIsRefusedWithTheLargest) {
  write("code/large.bin", std::string(2000, 'x'));
  write("code/small.py", "x");
  const std::string problem =
      collect({{.path = path("code")}}, {.excludes = {}, .most_bytes = 1000}, cache()).status().message();
  EXPECT_THAT(problem, AllOf(HasSubstr("large.bin"), HasSubstr("excludes"), HasSubstr("1000 B")));
}

TEST_F(PackageTest, LinksToFoldersElsewhereAreRefused) {
  write("elsewhere/file", "x");
  write("code/a", "x");
  fs::create_symlink("../elsewhere", path("code/link"));
  EXPECT_THAT(collect({{.path = path("code")}}, {}, cache()).status().message(), HasSubstr("code/link"));
  EXPECT_TRUE(collect({{.path = path("code")}}, {.excludes = {"link"}}, cache()).ok());
}

// This test itself, with Arrow, which lies beside no library of the system.
TEST_F(PackageTest, TheProgramTravelsWithItsLibraries) {
  const Package package = collect_program(cache()).ValueOrDie();
  const std::string program = fs::read_symlink("/proc/self/exe").filename();
  const auto paths = paths_of(package.manifest);
  EXPECT_THAT(paths, ::testing::Contains("bin/" + program));
  EXPECT_THAT(paths, ::testing::Contains(::testing::StartsWith("lib/libarrow.so")));
  EXPECT_THAT(paths, ::testing::Not(::testing::Contains(HasSubstr("libc.so"))));
  ASSERT_TRUE(unpack(package.manifest, cache(), path("there"), Content::shared).ok());
  const std::string command = "LD_LIBRARY_PATH=" + path("there/lib") + " " + path("there/bin/") + program +
                              " --gtest_list_tests > " + path("list");
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(text_of(path("list")), HasSubstr("TheProgramTravelsWithItsLibraries"));
}

}  // namespace
}  // namespace paceline::package
