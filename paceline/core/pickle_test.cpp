#include "paceline/core/pickle.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace paceline {
namespace {

void write(PickleWriter& writer, const Json& value) {
  if (value.is_object()) {
    writer.begin_dict();
    for (const auto& [key, one] : value.items()) {
      writer.text(key);
      write(writer, one);
    }
    writer.end_dict();
  } else if (value.is_array()) {
    writer.begin_list();
    for (const Json& one : value) write(writer, one);
    writer.end_list();
  } else if (value.is_string()) {
    writer.text(value.get_ref<const std::string&>());
  } else if (value.is_boolean()) {
    writer.truth(value.get<bool>());
  } else if (value.is_number_float()) {
    writer.real(value.get<double>());
  } else if (value.is_number()) {
    writer.integer(value.get<int64_t>());
  } else {
    writer.none();
  }
}

std::string pickle_of(const Json& value) {
  PickleWriter writer;
  write(writer, value);
  return writer.finish();
}

Json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random()) - static_cast<int64_t>(random());
    case 3:
      return static_cast<int64_t>(static_cast<uint64_t>(random()) << 32 | random());
    case 4:
      return static_cast<double>(random()) / 7;
    case 5:
      return "text " + std::to_string(random() % 500);
    case 6: {
      Json list = Json::array();
      for (uint32_t i = random() % 5; i > 0; --i) list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      Json dict = Json::object();
      for (uint32_t i = random() % 5; i > 0; --i) {
        dict["key " + std::to_string(random() % 9)] = random_value(random, depth - 1);
      }
      return dict;
    }
  }
}

TEST(Pickle, ValuesComeBack) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Json value = random_value(random, 5);
    EXPECT_EQ(decode_pickle(pickle_of(value)).ValueOrDie(), value);
  }
  Json many = Json::array();  // more texts than have short places
  for (int i = 0; i < 2000; ++i) many.push_back("text " + std::to_string(i % 700));
  EXPECT_EQ(decode_pickle(pickle_of(many)).ValueOrDie(), many);
  for (const int64_t number : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), int64_t{-1}}) {
    EXPECT_EQ(decode_pickle(pickle_of(number)).ValueOrDie(), number);
  }
}

// As Python's own, byte for byte where there is one way: pickletools.dis() shows them.
TEST(Pickle, TheBytesArePythons) {
  EXPECT_EQ(pickle_of(nullptr), "\x80\x02N.");
  EXPECT_EQ(pickle_of(Json{{"a", true}}), std::string("\x80\x02}(X\x01\0\0\0aq\0\x88u.", 15));
  EXPECT_EQ(pickle_of(1.0), std::string("\x80\x02G\x3f\xf0\0\0\0\0\0\0.", 12));
}

TEST(Pickle, WhatIsNoneIsRefused) {
  std::mt19937 random(5);
  const std::string whole = pickle_of(random_value(random, 6));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(decode_pickle(whole.substr(0, size)).status().IsInvalid()) << size;
  }
  for (int round = 0; round < 3000; ++round) {
    std::string changed = whole;
    changed[random() % changed.size()] = static_cast<char>(random());
    (void)decode_pickle(changed);  // whatever it is, it is no crash
  }
  EXPECT_NE(decode_pickle("\x80\x02"
                          "cos\nsystem\n.")
                .status()
                .message()
                .find("which Paceline does not write"),
            std::string::npos);
}

// Two bytes say that a text comes again: a few MB could ask for terabytes.
TEST(Pickle, TextsThatComeAgainAreBounded) {
  const std::string text(size_t{1} << 20, 'x');
  const auto repeated = [&](int times) {
    PickleWriter writer;
    writer.begin_list();
    for (int i = 0; i < times; ++i) writer.text(text);
    writer.end_list();
    return writer.finish();
  };
  EXPECT_EQ(decode_pickle(repeated(64)).ValueOrDie().size(), 64u);
  EXPECT_NE(decode_pickle(repeated(1000)).status().message().find("texts that come again"), std::string::npos);
  std::string noted = repeated(1);  // and noted under many places
  noted.insert(noted.size() - 2, [] {
    std::string puts;
    for (int place = 1; place < 200; ++place) puts += {'q', static_cast<char>(place)};
    return puts;
  }());
  EXPECT_NE(decode_pickle(noted).status().message().find("texts that come again"), std::string::npos);
}

}  // namespace
}  // namespace paceline
