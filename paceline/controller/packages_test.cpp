#include "paceline/controller/packages.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "paceline/package/manifest.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PackagesTest : public ::testing::Test {
 protected:
  PackagesTest() {
    ::setenv("XDG_CACHE_HOME", (folder_.path() + "/cache").c_str(), 1);
    std::filesystem::create_directories(folder_.path() + "/code/mine");
    std::ofstream(folder_.path() + "/code/train.py") << "train";
    std::ofstream(folder_.path() + "/code/mine/vit.py") << "vit";
    std::ofstream(folder_.path() + "/code/weights.bin") << "weights";
    request_.directory = "/own";
  }
  ~PackagesTest() override { ::unsetenv("XDG_CACHE_HOME"); }

  static std::string text_of(const Packages& packages, const std::string& sum, int64_t bytes, int64_t offset = 0) {
    return packages.read({.sha256 = sum, .offset = offset, .bytes = bytes}).bytes;
  }
  static std::string error_of(const Packages& packages, const rpc::PackageRead& wanted) {
    return rpc::unpack<rpc::PackagePart>(packages.read(wanted)).ValueOrDie().error;
  }

  const testing::TemporaryFolder folder_;
  RunRequest request_;
};

TEST_F(PackagesTest, NobodyWantsAny) {
  EXPECT_TRUE(Packages::collect(request_).ValueOrDie().list().packages.empty());
  EXPECT_EQ(local_directory(request_), "/own");
  EXPECT_EQ(local_modules(request_.run_config), "");
}

TEST_F(PackagesTest, WhatIsAskedForIsGiven) {
  request_.run_config.working_dir = folder_.path() + "/code";
  request_.run_config.py_modules = {folder_.path() + "/code/mine/"};
  request_.run_config.excludes = {"*.bin"};
  const Packages packages = Packages::collect(request_).ValueOrDie();
  const auto& list = packages.list().packages;
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[0].use, rpc::PackageUse::directory);
  EXPECT_EQ(list[1].use, rpc::PackageUse::modules);
  const auto directory = package::decode(text_of(packages, list[0].checksum, list[0].text_bytes)).ValueOrDie();
  ASSERT_EQ(directory.size(), 2);
  EXPECT_EQ(directory[0].path, "mine/vit.py");
  EXPECT_EQ(text_of(packages, directory[0].sha256, 2, 1), "it");
  const auto modules = package::decode(text_of(packages, list[1].checksum, list[1].text_bytes)).ValueOrDie();
  EXPECT_EQ(modules, package::Manifest{directory[0]});
  EXPECT_THAT(packages.text(), HasSubstr("working_dir: 2 files, 8 B"));
  EXPECT_EQ(local_directory(request_), folder_.path() + "/code");
  EXPECT_EQ(local_modules(request_.run_config), folder_.path() + "/code");
}

TEST_F(PackagesTest, AgentsGetNothingElse) {
  request_.run_config.working_dir = folder_.path() + "/code";
  const Packages packages = Packages::collect(request_).ValueOrDie();
  const rpc::PackageName list = packages.list().packages.front();
  EXPECT_EQ(error_of(packages, {list.checksum, 0, list.text_bytes}), "");
  for (const rpc::PackageRead& wanted :
       {rpc::PackageRead{list.checksum, 0, list.text_bytes + 1}, rpc::PackageRead{list.checksum, -1, 1},
        rpc::PackageRead{list.checksum, INT64_MAX, 1}, rpc::PackageRead{list.checksum, 0, -1},
        rpc::PackageRead{list.checksum, 0, INT64_MAX}, rpc::PackageRead{"../../etc/passwd", 0, 1},
        rpc::PackageRead{std::string(64, 'a'), 0, 0}}) {
    EXPECT_THAT(error_of(packages, wanted), HasSubstr("no such piece")) << wanted.sha256;
  }
}

TEST_F(PackagesTest, AnErrorNamesTheSetting) {
  request_.run_config.py_modules = {folder_.path() + "/absent"};
  EXPECT_THAT(Packages::collect(request_).status().message(),
              AllOf(HasSubstr("RunConfig.py_modules"), HasSubstr("absent")));
}

}  // namespace
}  // namespace paceline::controller
