#include "paceline/data/format/numpy_source.h"

#include <arrow/json/from_string.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// As numpy.save() writes.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& fortran = "False", int version = 1) {
  std::string header = "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  const size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (size_t i = 8; i < prefix; ++i) file += static_cast<char>(header.size() >> (8 * (i - 8)) & 0xFF);
  return file + header + data;
}

template <typename Number>
std::string bytes(const std::vector<Number>& numbers) {
  std::string text(numbers.size() * sizeof(Number), '\0');
  std::memcpy(text.data(), numbers.data(), text.size());
  return text;
}

class NumpySourceTest : public FilesTest {
 protected:
  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths, const NumpyOptions& options = {}) {
    return numpy_source(file_system_, infos(paths), options);
  }
  void expect_rows(const Source& source, const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    const auto table = all_rows(source);
    const auto wanted = arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
    EXPECT_TRUE(table->GetColumnByName("data")->Equals(arrow::ChunkedArray(wanted))) << table->ToString();
  }
  std::string error(const std::string& content) { return open({write("x.npy", content)}).status().message(); }
};

TEST_F(NumpySourceTest, TheFirstDimensionIsRows) {
  const auto matrix = arrow::fixed_size_list(arrow::fixed_size_list(arrow::float32(), 1), 2);
  const std::string a = write("a.npy", npy("'<f4'", "(3, 2, 1)", bytes<float>({1, 2, 3, 4, 5, 6})));
  const std::string b = write("b.npy", npy("'<f4'", "(1, 2, 1)", bytes<float>({7, 8}), "False", 2));
  const std::string none = write("c.npy", npy("'<f4'", "(0, 2, 1)", "", "False", 3));
  for (const int64_t chunk : {1, 8, 16, 1000}) {
    const auto source = open({a, b, none}, {.chunk_bytes = chunk}).ValueOrDie();
    EXPECT_EQ(source->chunks().size(), chunk <= 8 ? 4u : chunk == 16 ? 3u : 2u);
    expect_rows(*source, matrix, "[[[1], [2]], [[3], [4]], [[5], [6]], [[7], [8]]]");
  }
}

TEST_F(NumpySourceTest, NumbersOfEachKind) {
  const auto expect = [&](const std::string& descr, const std::string& data, const auto& type,
                          const std::string& json) {
    expect_rows(**open({write("x.npy", npy("'" + descr + "'", "(2,)", data))}), type, json);
  };
  expect("|b1", std::string("\0\1", 2), arrow::boolean(), "[false, true]");
  expect("|i1", "\xFF\1", arrow::int8(), "[-1, 1]");
  expect("|u1", "\xFF\1", arrow::uint8(), "[255, 1]");
  expect("<i2", bytes<int16_t>({-1, 2}), arrow::int16(), "[-1, 2]");
  expect("<u2", bytes<uint16_t>({1, 2}), arrow::uint16(), "[1, 2]");
  expect("<i4", bytes<int32_t>({-1, 2}), arrow::int32(), "[-1, 2]");
  expect("<u4", bytes<uint32_t>({1, 2}), arrow::uint32(), "[1, 2]");
  expect("<i8", bytes<int64_t>({-1, 2}), arrow::int64(), "[-1, 2]");
  expect("<u8", bytes<uint64_t>({1, 2}), arrow::uint64(), "[1, 2]");
  expect("<f2", bytes<uint16_t>({0x3C00, 0xC000}), arrow::float16(), "[1, -2]");
  expect("<f8", bytes<double>({0.5, 2}), arrow::float64(), "[0.5, 2]");
}

TEST_F(NumpySourceTest, ShapesOfEachKind) {
  expect_rows(**open({write("x.npy", npy("'<i8'", "()", bytes<int64_t>({5})))}), arrow::int64(), "[5]");
  expect_rows(**open({write("x.npy", npy("'<i8'", "(2, 0)", ""))}), arrow::fixed_size_list(arrow::int64(), 0),
              "[[], []]");
  expect_rows(**open({write("x.npy", npy("'<i8'", "(1L,)", bytes<int64_t>({5}), "True"))}), arrow::int64(), "[5]");
  expect_rows(**open({write("x.npy", npy("'|b1'", "(2, 2)", std::string("\1\0\0\1", 4)))}, {.chunk_bytes = 1}),
              arrow::fixed_size_list(arrow::boolean(), 2), "[[true, false], [false, true]]");
}

TEST_F(NumpySourceTest, WhatIsNotReadSaysWhatToDo) {
  EXPECT_THAT(error(npy("'<f4'", "(2, 2)", bytes<float>({1, 2, 3, 4}), "True")),
              AllOf(HasSubstr("x.npy"), HasSubstr("ascontiguousarray")));
  EXPECT_THAT(error(npy("'>f4'", "(1,)", "abcd")), HasSubstr("big-endian"));
  EXPECT_THAT(error(npy("'|O'", "(1,)", "abcd")), HasSubstr("x.npy"));
  EXPECT_THAT(error(npy("'<U3'", "(1,)", "abcd")), HasSubstr("its numbers are <U3"));
  EXPECT_THAT(error(npy("[('a', '<f4')]", "(1,)", "abcd")), HasSubstr("its numbers are [('a', '<f4')]"));
  EXPECT_THAT(error(npy("'<c8'", "(1,)", "abcdefgh")), HasSubstr("<c8"));
  EXPECT_THAT(error("text"), HasSubstr("does not begin as a .npy file"));
  EXPECT_THAT(error(""), HasSubstr("does not begin as a .npy file"));
  EXPECT_THAT(error("\x93NUMPY"), HasSubstr("cut off"));
  const std::string whole = npy("'<f4'", "(2,)", bytes<float>({1, 2}));
  EXPECT_THAT(error(whole.substr(0, 50)), HasSubstr("cut off"));
  EXPECT_THAT(error(whole.substr(0, whole.size() - 1)), HasSubstr("truncated: its header says 2 rows of 4 bytes"));
  EXPECT_THAT(error(npy("'<f4'", "(99999999999999999999,)", "")), HasSubstr("damaged"));
  EXPECT_THAT(error(npy("'<f4'", "(-1,)", "")), HasSubstr("damaged"));
  EXPECT_THAT(error(npy("'<f4'", "(1, 2000000000, 2000000000, 2000000000)", "")), HasSubstr("too large"));
}

TEST_F(NumpySourceTest, RowsWithoutValuesAreBounded) {
  EXPECT_THAT(error(npy("'<f4'", "(1000000000000000000, 0)", "")),
              AllOf(HasSubstr("x.npy"), HasSubstr("1000000000000000000 rows without values")));
  EXPECT_EQ(all_rows(*open({write("few.npy", npy("'<f4'", "(1000, 0)", ""))}).ValueOrDie())->num_rows(), 1000);
}

TEST_F(NumpySourceTest, FilesMustBeAlikeAndStayAsTheyAre) {
  const std::string a = write("a.npy", npy("'<i8'", "(1,)", bytes<int64_t>({1})));
  const std::string b = write("b.npy", npy("'<f8'", "(1,)", bytes<double>({1})));
  EXPECT_THAT(open({a, b}).status().message(), AllOf(HasSubstr(b), HasSubstr("double"), HasSubstr("they are int64")));
  EXPECT_THAT(open({}).status().message(), HasSubstr("no NumPy file was given"));
  const auto source = open({a}).ValueOrDie();
  std::filesystem::resize_file(a, 130);
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(a), HasSubstr("it has changed")));
}

}  // namespace
}  // namespace paceline::data
