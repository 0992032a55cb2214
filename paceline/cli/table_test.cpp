#include "paceline/cli/table.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(Table, AlignsColumnsByLetters) {
  Table table({"NAME", "STATE"});
  table.add({"größe", "finished"});
  table.add({"a", ""});
  EXPECT_EQ(table.text(0), "NAME   STATE\ngröße  finished\na\n");
  EXPECT_EQ(table.text(9), "NAME   ST\ngröße  fi\na\n");
}

TEST(Table, AlignsWideLetters) {
  Table table({"NAME", "STATE"});
  table.add({"東京", "finished"});
  table.add({"ab", "running"});
  EXPECT_EQ(table.text(0), "NAME  STATE\n東京  finished\nab    running\n");
  EXPECT_EQ(table.text(3), "NAM\n東\nab\n");
}

TEST(Table, EveryCellIsPrintable) {
  Table table({"NAME"});
  table.add({"a\n\xff"});
  EXPECT_EQ(table.text(0), "NAME\na\\n\\xff\n");
}

TEST(Table, TellsHowLongAgo) {
  EXPECT_EQ(ago_text(-3), "0 s ago");
  EXPECT_EQ(ago_text(59.9), "59 s ago");
  EXPECT_EQ(ago_text(7200), "2 h ago");
  EXPECT_EQ(ago_text(86400 * 3), "3 days ago");
}

}  // namespace
}  // namespace paceline::cli
